"""The idle share of a pipeline's devices, by the number of micro-batches, beside GPipe's (p - 1) / (m + p - 1).

Its time is compared with that of the same micro-batches one after the other (`accumulate`) on one device and thread.
Each measurement is a process of its own, which times its steps after the first calls. The layers are alike and large,
so that the stages cost the same.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from tasks.config import MlpModel, TrainConfig
from tasks.config.train import OneDevice, Pipeline, Schedule, Sgd
from tasks.processes.crew import Crew, Limits
from tasks.processes.workbench import Workbench
from tests.benchmarks.stepping import synthetic
from tests.benchmarks.workers import timed

STAGES, ROUNDS, CALLS = 2, 5, 3
UNITS, LAYERS, ROWS = 1024, 8, 256
"""Of each hidden layer; hidden layers; rows of a micro-batch."""


def seconds(bench: Workbench, folder: Path, strategy: Any, accumulate: int, batch_size: int) -> float:
    """Return seconds of a step."""
    from tasks.data import open_snapshot
    from tasks.training import engines
    from tasks.training.group import Cluster
    from tasks.training.plan import make_plan

    config = TrainConfig(
        steps=10**6,
        batch_size=batch_size,
        accumulate=accumulate,
        optimizer=Sgd(),
        learning_rate=1e-6,
        schedule=Schedule(kind="constant"),
        strategy=strategy,
    )
    snapshot = open_snapshot(folder)
    plan = make_plan(config, snapshot.counts["train"], [1])
    engine = engines.build(config, MlpModel(units=(UNITS,) * LAYERS), snapshot, plan, 1, Cluster())
    engine.seek(0)
    return timed(lambda: engine.step(1), CALLS)


def measured(folder: Path, snapshot: Path, threads: int, strategy: Any, accumulate: int, batch_size: int) -> float:
    """Return seconds of a step in a process with so many threads."""
    with Crew(folder / "logs", threads).gang("bench") as gang:
        arguments = (snapshot, strategy, accumulate, batch_size)
        work = "tests.benchmarks.bubble:seconds"
        found: float = gang.call(
            work, None, folder / "journal", arguments, limits=Limits(), on_report=lambda *report: None
        )
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        snapshot = synthetic(folder)
        print(f"{STAGES} stages, {LAYERS} layers of {UNITS} units, {ROWS} rows a micro-batch; median [lowest, highest]")
        for m in (1, 2, 4, 8):
            idle: list[float] = []
            again: list[float] = []
            for number in range(ROUNDS):
                serial = ("serial", 1, OneDevice(), m)
                order = [
                    serial,
                    ("piped", STAGES, Pipeline(devices=STAGES, micro_batches=m), 1),
                    ("again", *serial[1:]),
                ]
                taken = {
                    way: measured(folder, snapshot, threads, strategy, accumulate, m * ROWS)
                    for way, threads, strategy, accumulate in (order if number % 2 == 0 else reversed(order))
                }
                idle.append(1 - taken["serial"] / (STAGES * taken["piped"]))
                again.append(taken["again"] / taken["serial"])
            theory = (STAGES - 1) / (m + STAGES - 1)
            print(
                f"  m = {m}: idle {statistics.median(idle):.3f} [{min(idle):.3f}, {max(idle):.3f}], GPipe {theory:.3f};"
                f" A/A {statistics.median(again):.3f} [{min(again):.3f}, {max(again):.3f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
