"""An engine in NumPy alone, which shows that loop, checkpoints and ledger know no framework."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome
from tasks.errors import Lost, Stopped
from tasks.feed.orders import batch_rows
from tasks.processes.workbench import Workbench
from tasks.training.actions import Guard, LogCurves, Progress, Save
from tasks.training.checkpoints import STATE, StagedCheckpoints
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Batches, Compute
from tasks.training.group import Alone
from tasks.training.ledger import LEDGER, hash_of
from tasks.training.loop import Plan, make_plan, train
from tasks.training.meter import Meter, StepSums
from tasks.training.primary import BestWeights
from tasks.training.schedules import Linear
from tasks.training.sections import CheckpointConfig
from tasks.training.speed import Goodput, Speed

EXAMPLES, STEPS = 10, 12
CONFIG = TrainConfig(
    steps=STEPS,
    batch_size=4,
    learning_rate=0.1,
    schedule=Linear(),
    checkpoint=CheckpointConfig(every=3),
    log_every=4,
    evaluate_every=1000,
)


class ToyEngine:
    """Fits a line to ten points by gradient descent with momentum; a step lasts `seconds`."""

    loss, group = "squared_error", Alone()
    layout: ClassVar[dict[str, Any]] = {}

    def __init__(self, plan: Plan, seconds: float = 0.0) -> None:
        self.plan, self.seconds, self.position = plan, seconds, 0
        self.values = {"line": np.zeros(2), "momentum": np.zeros(2)}

    def seek(self, step: int) -> None:
        self.position = step

    def step(self, rates: NDArray[np.float32]) -> StepSums:
        n = len(rates)
        print(f"step {self.position + 1} begins", flush=True)
        started, losses, norms = time.perf_counter(), [], []
        rows, _ = batch_rows(self.position, self.plan.batch_size, EXAMPLES, 5, steps=n)
        for batch, rate in zip(rows, rates, strict=True):
            time.sleep(self.seconds)
            inputs = np.stack([batch / EXAMPLES, np.ones(len(batch))], 1)
            errors = inputs @ self.values["line"] - (3 * batch / EXAMPLES - 1)
            gradient = inputs.T @ errors / len(batch)
            self.values["momentum"] = 0.9 * self.values["momentum"] + gradient
            self.values["line"] = self.values["line"] - float(rate) * self.values["momentum"]
            losses.append(float((errors**2).sum()))
            norms.append(float(np.linalg.norm(gradient)))
        self.position += n
        seen = np.full(n, float(self.plan.batch_size))
        sums = {"loss": np.array(losses), "weight": seen, "seen": seen}
        taken = time.perf_counter() - started
        fed = rows.ravel()
        return StepSums(sums, np.array(norms), np.isfinite(norms), rates, len(fed), hash_of(fed), taken, 0.0)

    def score(self, batches: Batches) -> dict[str, float]:
        return {"loss": float(np.abs(self.values["line"] - [3, -1]).sum())}

    def weights(self) -> Arrays:
        return {"line": self.values["line"].copy()}

    def begin_with(self, weights: Arrays) -> None:
        self.values["line"] = weights["line"].copy()

    def state(self) -> Arrays:
        return {name: values.copy() for name, values in self.values.items()}

    def load(self, state: Arrays) -> None:
        self.values = {name: state[name].copy() for name in self.values}

    def memory(self) -> int:
        return 0

    def peak_memory(self) -> int:
        return 0

    def compute(self) -> Compute:
        return Compute(0, 0.0)

    def close(self) -> None:
        pass


def fit_line(bench: Workbench, seconds: float = 0.0, most: int = 50) -> Outcome:
    """As `tasks.training.fit` does it, with the toy for an engine."""
    plan = make_plan(CONFIG, EXAMPLES, (CONFIG.log_every, CONFIG.checkpoint.every))
    plan.pace.most = most
    engine = ToyEngine(plan, seconds)
    best = BestWeights(CONFIG)
    checkpoints = StagedCheckpoints(
        bench.staging, CONFIG.checkpoint, best, saving=bench.saving, report=bench.saved, layout=bench.layout
    )
    meter, progress = Meter(), Progress(plan, bench.progress, bench.measure)
    log = LogCurves(CONFIG.log_every, bench.journal, Speed(4), Goodput(bench.measure))
    actions: list[Any] = [Guard(str), progress, log, Save(3, checkpoints)]
    step = train(engine, plan, checkpoints, meter, actions, bench.stopping)
    engine.close()
    if step < plan.steps:
        raise Stopped(bench.stopping(), saved=f"step {step}")
    meter.clear()
    bench.staging.put(STATE, checkpoints.content(engine, meter, step))
    bench.staging.put(LEDGER, meter.ledger.text())
    return Outcome(counts={"steps": step}, layouts=checkpoints.layouts)


def files(bench: Workbench) -> list[bytes]:
    return [(bench.staging.root / name).read_bytes() for name in (STATE, LEDGER)]


def stopping(bench: Workbench, after: Callable[[], int]) -> Workbench:
    return replace(bench, stopping=after)


def who(bench: Workbench) -> tuple[int, str, tuple[str, ...], bool]:
    """Return rank, role and peers of a process of a gang, and whether it has a staging."""
    return bench.rank, bench.role, bench.peers, bench.staging is not None


def fall(bench: Workbench, rank: int) -> None:
    """The process of this rank dies, the others would work for ever."""
    if bench.rank == rank:
        os.kill(os.getpid(), 9)
    time.sleep(600)


def freeze(bench: Workbench, rank: int) -> None:
    """The process of this rank stands still, the others would work for ever."""
    if bench.rank == rank:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)


def report_before_it_is_seen(bench: Workbench) -> None:
    """The chief reports that another does not answer, half a second before it is seen that rank 2 was killed."""
    if bench.rank == 0:
        raise Lost("train.strategy", "connection reset", "all must answer", "run again")
    time.sleep(0.5 if bench.rank == 2 else 600)
    os.kill(os.getpid(), 9)


def end_before_it_is_seen(bench: Workbench) -> int:
    """Rank 1, which serves, sees that the chief has ended before the chief's result is seen."""
    if bench.rank:
        raise Lost("train.evaluate", "the chief has closed the connection", "it must answer", "run again")
    time.sleep(0.5)
    return 7


def lose(bench: Workbench) -> None:
    """Every process reports that another does not answer."""
    raise Lost("train.strategy", "no answer", "all must answer", "run again")
