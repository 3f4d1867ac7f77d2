"""When a fault strikes: in a stage, after a time, or at one of the moments at which work used to be lost."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from flows.drill.home import DrillHome
from tasks.artifacts import STAGES

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

    name: ClassVar[str]

    @abstractmethod
    def due(self, home: DrillHome) -> bool:
        """Return whether it has come."""

    def __str__(self) -> str:
        return self.name


@dataclass
class InStage(Moment):
    """A time after a stage has left its first finished piece, or has begun where it leaves none."""

    name: ClassVar[str] = "in a stage"

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

    name: ClassVar[str] = "at the start"

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

    name: ClassVar[str] = "during a publication"

    def due(self, home: DrillHome) -> bool:
        """Return whether an artifact is being put together."""
        return any((home.root / "store/.staging").glob("*/*/.publication"))


@dataclass
class Writing(Moment):
    """While a thread writes a checkpoint beside the training."""

    name: ClassVar[str] = "while a checkpoint is written"

    def due(self, home: DrillHome) -> bool:
        """Return whether a checkpoint is being written."""
        return any((home.root / "store/.staging/model").glob("*/checkpoints/*.partial"))


def at_work(home: DrillHome, stage: str) -> bool:
    """Return whether a stage has begun and left a finished piece; `promote` leaves none."""
    if stage == "promote":
        return "export" in home.record["stages"]
    return any((home.root / "store/.staging" / WORKPLACES[stage]).glob("*/.pieces/**/*.json"))


def drawn(chance: random.Random, seconds: dict[str, float]) -> Moment:
    """Draw a moment: of four one is special, the others lie in a stage, by its share of the unbroken run's time."""
    kind = chance.choice(("publishing", "writing", "start", *["stage"] * 9))
    if kind == "publishing":
        return Publishing()
    if kind == "writing":
        return Writing()
    if kind == "start":
        return AtStart(chance.uniform(0.5, 4))
    stages = [stage for stage in STAGES if seconds.get(stage, 0) > 0]
    # a stage of a tenth of a second is struck, too: the square root of its time
    stage = chance.choices(stages, [seconds[stage] ** 0.5 for stage in stages])[0]
    return InStage(stage, chance.uniform(0, seconds[stage] / 2))
