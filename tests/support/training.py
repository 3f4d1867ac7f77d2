"""Trainings by several real processes, and conflicts of their settings, for tests."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from pydantic import ValidationError

from tasks.artifacts import Outcome, Snapshot
from tasks.models.architectures.mlp import MlpModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.training.checkpoints import STATE, unpack
from tasks.training.fit import fit, test_strategy
from tasks.training.optimizers import AdamW
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import MultiWorker
from tests.support.tiny import CONFIG

PLAIN = MlpModel(units=(8, 8))
TWO = MultiWorker(workers=2)


class Training:
    """A training by a gang; `at` is called with each step that is reported, and with the processes' ids."""

    @property
    def on_disk(self) -> str:
        """The newest state that the next attempt goes on from, in the words of a stop."""
        return f"step {int(max(self.bench.staging.pieces('checkpoints/'))[-len('000000000000.npz') : -len('.npz')])}"

    @property
    def went_on_from(self) -> str:
        """The state that the last attempt went on from."""
        lines = [line for _, line in self.logged if line.endswith("going on from its checkpoint")]
        return lines[-1].partition(":")[0]

    def __init__(self, snapshot: Snapshot, bench: Workbench, logs: Path) -> None:
        self.snapshot, self.bench, self.launcher = snapshot, bench, ProcessLauncher(logs, 1)
        self.said: list[str] = []
        self.measured: dict[str, Any] = {}
        self.logged: list[tuple[int, str]] = []
        """Lines of the log by rank."""
        self.host = socket.gethostname()

    def __call__(
        self,
        model: MlpModel = PLAIN,
        at: Callable[[int, list[int]], None] = lambda step, processes: None,
        silence: float = 30,
        **options: Any,
    ) -> Outcome:
        config = CONFIG.model_copy(update={"strategy": TWO, **options})
        journal = self.launcher.logs / "journal.jsonl"
        with self.launcher.gang("train", config.roles) as gang:

            def on_report(kind: str, *values: Any) -> None:
                if kind == "log":
                    self.logged.append((values[0], values[1]))
                if kind == "measure":
                    self.measured[values[0]] = values[1]
                if kind == "progress":
                    at(values[0], [process.process.begun() or 0 for process in gang.processes])  # type: ignore[attr-defined]

            outcome: Outcome = gang.call(
                Work(fit, (self.snapshot, model, config, 5)),
                self.bench.staging,
                journal,
                limits=Limits("resources.timeout", 120, silence=silence),
                on_report=on_report,
                say=self.said.append,
            )
            return outcome


def listening(process: int) -> list[str]:
    """The addresses on which a process' network is listened to, as the kernel writes them: `0100007F:1F90`."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()
    ]
    return [row[1] for row in rows if row[3] == "0A"]


def reached_from_elsewhere(process: int) -> list[str]:
    """The addresses on which a process listens in the network of this machine, and not on its loopback."""
    if Path(f"/proc/{process}/ns/net").readlink() != Path("/proc/self/ns/net").readlink():
        return []
    sockets = psutil.Process(process).net_connections()
    return [each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN and each.laddr.ip != "127.0.0.1"]


def variables(bench: Workbench) -> list[np.ndarray]:
    """The model's and the optimizer's variables after the last step, and dropout's seeds, in order of name."""
    return [values for _, values in sorted(unpack((bench.staging.root / STATE).read_bytes())[2].items())]


def weights(bench: Workbench) -> list[np.ndarray]:
    """Of these all but random states, as float64."""
    return [values.astype(np.float64) for values in variables(bench) if values.dtype != np.uint32]


def distance(one: Workbench, other: Workbench) -> float:
    pairs = zip(weights(one), weights(other), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def send(number: int, rank: int, step: int) -> Callable[[int, list[int]], None]:
    """Send a signal to the process of a rank when this step is reported, once."""
    sent: list[int] = []

    def at(reached: int, processes: list[int]) -> None:
        if reached >= step and not sent:
            psutil.Process(processes[rank]).send_signal(number)
            sent.append(reached)

    return at


def raise_conflict(make: Callable[[], Any]) -> None:
    """Raise the `Conflict` within an error of pydantic."""
    try:
        make()
    except ValidationError as error:
        raise error.errors()[0]["ctx"]["error"] from None


LONG = {
    "steps": 3000,
    "checkpoint": CheckpointConfig(every=50),
    "optimizer": AdamW(),
    "log_every": 50,
    "evaluate_every": 1000,
}


def verdict(
    folder: Path, strategy: Any, precision: Any, function: Callable[..., Any] = test_strategy
) -> dict[str, float]:
    roles = strategy.roles
    with ProcessLauncher(folder, 1).gang("test", roles) as gang:
        found: dict[str, float] = gang.call(
            Work(function, (strategy, precision)),
            None,
            folder / "journal",
            limits=Limits(),
            on_report=lambda *report: None,
        )
    return found
