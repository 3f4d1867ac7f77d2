"""A home of the drill: its command, its processes, what was made in it, and the moments at which a fault strikes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tasks.artifacts import STAGES
from tasks.environment.process import PYTHON, environment
from tasks.store.journal import FILE as JOURNAL
from tasks.store.journal import last_of_training

SERVERS = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "MILLRACE_FORK_SERVERS")
"""Variables by which a run would use servers that are not of its home."""


@dataclass(frozen=True)
class DrillHome:
    """A home in which nothing runs but the drill's command."""

    root: Path
    command: Sequence[str]
    """The words of `millrace`: `run`, the flow, the preset and its flags."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command in a process group of its own; its output goes to `drill.log` beside the home."""
        own = {name: value for name, value in environment(os.environ).items() if name not in SERVERS}
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [*PYTHON, "-m", "flows", *self.command],
                env={**own, "MILLRACE_HOME": str(self.root)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> Path:
        """What the commands have printed."""
        return self.root.with_name(f"{self.root.name}.log")

    @property
    def record(self) -> dict[str, Any]:
        """The record of the last run; one without stages where there is none yet."""
        for path in sorted(self.root.glob("runs/*/run.json"), reverse=True):
            with contextlib.suppress(OSError, ValueError):
                record: dict[str, Any] = json.loads(path.read_bytes())
                return record
        return {"stages": {}, "exit_code": None, "run_id": ""}

    @property
    def computing(self) -> list[psutil.Process]:
        """The compute processes that write a log of this home, by rank; their names are `millrace STAGE`."""
        working = []
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error, OSError):
                log = Path(f"/proc/{process.pid}/fd/1").readlink()
                if process.info["name"].startswith("millrace ") and self.root in log.parents:
                    working.append((rank_of(log), process))
        return [process for _, process in sorted(working, key=lambda each: each[0])]

    @property
    def step(self) -> int:
        """The last step of a training that its journal has."""
        point = last_of_training(self.root / "runs" / self.record["run_id"] / JOURNAL)
        return 0 if point is None else point.step

    @property
    def saved(self) -> int | None:
        """The newest step that is saved of the training under way, or the last one of a finished model; else None."""
        steps = [
            int(path.name[5:17]) for path in self.root.glob("store/.staging/model/*/.pieces/checkpoints/step-*.json")
        ]
        if not steps:
            manifests = self.root.glob("store/model/*/manifest.json")
            steps = [json.loads(path.read_bytes()).get("steps", 0) for path in manifests]
        return max(steps, default=None)


def rank_of(log: Path) -> int:
    """Return the rank of the process of a log, `STAGE.log` or `STAGE-RANK.log`."""
    rank = log.stem.rpartition("-")[2]
    return int(rank) if rank.isdigit() else 0


def artifacts(root: Path) -> dict[str, str]:
    """Return the SHA-256 of every published file of a home, by `kind/digest/path`.

    That of a manifest is without `created` and `produced_by`, which the clock and the host decide.
    """
    sums = {}
    for path in published(root):
        content = path.read_bytes()
        if path.name == "manifest.json" and path.parent.parent.parent == root / "store":
            manifest = {k: v for k, v in json.loads(content).items() if k not in ("created", "produced_by")}
            content = json.dumps(manifest, sort_keys=True).encode()
        sums[path.relative_to(root / "store").as_posix()] = hashlib.sha256(content).hexdigest()
    return sums


def published(root: Path) -> Iterator[Path]:
    """Yield the files of all published artifacts of a home, in order."""
    for path in sorted((root / "store").glob("[!.]*/*/**/*")):
        if path.is_file():
            yield path


WORKPLACES = {
    "convert": "records",
    "snapshot": "snapshot",
    "train": "model",
    "evaluate": "report",
    "compress": "variant",
    "export": "export",
}
"""The kind that a stage makes."""


@dataclass
class Moment(ABC):
    """A moment of a run; `due` is asked every millisecond or two."""

    @abstractmethod
    def due(self, home: DrillHome) -> bool:
        """Return whether it has come."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass
class InStage(Moment):
    """A time after a stage has left its first finished piece, or has begun where it leaves none."""

    stage: str
    seconds: float
    _since: float | None = field(default=None, init=False)

    def due(self, home: DrillHome) -> bool:
        """Return whether the stage is at work for so long."""
        if self._since is None and at_work(home, self.stage):
            self._since = time.monotonic()
        return self._since is not None and time.monotonic() - self._since >= self.seconds

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s into {self.stage}"


@dataclass
class AtStart(Moment):
    """A time after the command has begun, before the first stage as a rule."""

    seconds: float
    _since: float = field(default_factory=lambda: time.monotonic(), init=False)

    def due(self, home: DrillHome) -> bool:
        """Return whether so many seconds have passed."""
        return time.monotonic() - self._since >= self.seconds

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s after the start"


@dataclass
class Publishing(Moment):
    """While an artifact is put together."""

    def due(self, home: DrillHome) -> bool:
        """Return whether an artifact is being put together."""
        return any((home.root / "store/.staging").glob("*/*/.publication"))

    def __str__(self) -> str:
        return "during a publication"


@dataclass
class Writing(Moment):
    """While a thread writes a checkpoint beside the training."""

    def due(self, home: DrillHome) -> bool:
        """Return whether a checkpoint is being written."""
        return any((home.root / "store/.staging/model").glob("*/checkpoints/*.partial"))

    def __str__(self) -> str:
        return "while a checkpoint is written"


def at_work(home: DrillHome, stage: str) -> bool:
    """Return whether a stage has begun and left a finished piece; `promote` leaves none."""
    if stage == "promote":
        return "export" in home.record["stages"]
    return any((home.root / "store/.staging" / WORKPLACES[stage]).glob("*/.pieces/**/*.json"))


def drawn_moment(chance: random.Random, seconds: dict[str, float]) -> Moment:
    """Draw a moment: of four one is special, the others lie in a stage, by its share of the unbroken run's time."""
    kind = chance.choice((Publishing, Writing, AtStart, *[InStage] * 9))
    if kind in (Publishing, Writing):
        return kind()
    if kind is AtStart:
        return AtStart(chance.uniform(0.5, 4))
    stages = [stage for stage in STAGES if seconds.get(stage, 0) > 0]
    # a stage of a tenth of a second is struck, too: the square root of its time
    stage = chance.choices(stages, [seconds[stage] ** 0.5 for stage in stages])[0]
    return InStage(stage, chance.uniform(0, seconds[stage] / 2))
