"""The journal: metrics by step in a local file, so that a tracking outage neither delays training nor loses a point.

One JSON line per step: `{"metrics":{"train/loss":0.3},"step":20,"time":1790000000.0}`. A resumed training repeats steps
after the checkpoint: the first time of each point is kept. All that read `metrics.jsonl` read it here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.store import files

FILE = "metrics.jsonl"


@dataclass(frozen=True)
class Point:
    """A line of the journal, and the byte offset of the next one."""

    step: int
    time: float
    metrics: dict[str, float]
    end: int


class JournalFile:
    """Appends to the journal of a run."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        """`prefix` is what the names in the file begin with, those of one of several trainings."""
        self.path, self.prefix = path, prefix
        self.reached = 0
        """The last step of a training that is in it."""
        self._known: dict[str, Steps] = {}
        for point in read(path):
            if f"{prefix}train/loss" in point.metrics:
                self.reached = max(self.reached, point.step)
            self._note(point.step, point.metrics)

    @property
    def folder(self) -> Path:
        """Where other files of the training belong."""
        return self.path.parent / self.prefix

    def of(self, training: str) -> JournalFile:
        """Return the journal of one of several trainings of the run, whose names begin with its own."""
        return JournalFile(self.path, f"{training}/")

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Append metrics at a step; those already written at this step keep their first value and time."""
        named = {f"{self.prefix}{name}": float(value) for name, value in metrics.items()}
        fresh = {name: value for name, value in named.items() if step not in self._known.get(name, ())}
        if not fresh:
            return
        values = {name: _spell(value) for name, value in fresh.items()}
        files.append(self.path, {"step": step, "time": time.time(), "metrics": values})
        self._note(step, fresh)

    def sync(self) -> None:
        """Bring what is written to the disk: a training that goes on from a later checkpoint does not repeat it."""
        files.sync_lines(self.path)

    def _note(self, step: int, metrics: dict[str, float]) -> None:
        for name in metrics:
            self._known.setdefault(name, Steps()).add(step)


@dataclass
class Steps:
    """A set of steps, which takes no more room for a million of them at equal distances than for two."""

    _runs: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last step and distance, in the order in which they came."""

    def add(self, step: int) -> None:
        """Add a step."""
        if step in self:
            return
        first, last, distance = self._runs[-1] if self._runs else (step, step, 0)
        if self._runs and step > last and distance in (0, step - last):
            self._runs[-1] = (first, step, step - last)
        else:
            self._runs.append((step, step, 0))

    def __contains__(self, step: int) -> bool:
        return any(
            first <= step <= last and (step - first) % max(distance, 1) == 0 for first, last, distance in self._runs
        )


def read(path: Path, start: int = 0) -> Iterator[Point]:
    """Yield the points of the whole lines from byte `start` on; a line that is no point is left out."""
    for row, end in files.read(path, start):
        if (point := _point(row, end)) is not None:
            yield point


def last_of_training(path: Path) -> Point | None:
    """Return the last point that belongs to a training step; None without one."""
    points = (_point(row, 0) for row in files.last(path))
    return next((point for point in points if point is not None and point.step > 0), None)


def _point(row: dict[str, Any], end: int) -> Point | None:
    try:
        metrics = {str(name): float(value) for name, value in row["metrics"].items()}
        return Point(int(row["step"]), float(row["time"]), metrics, end)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _spell(value: float) -> float | str:
    """Return a JSON value: NaN and infinity as text."""
    return value if math.isfinite(value) else str(value)
