"""The journal: metrics by step in a local file, so that a tracking outage neither delays training nor loses a point.

One JSON line per step: `{"step": 20, "time": 1790000000.0, "metrics": {"train/loss": 0.3}}`. A resumed training
repeats steps after the checkpoint: the first time of each point is kept.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Point:
    """A line of the journal, and the byte offset of the next one."""

    step: int
    time: float
    metrics: dict[str, float]
    end: int


class JournalFile:
    """Appends to the journal of a run, `metrics.jsonl`."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        """`prefix` is what the names in the file begin with, those of one of several trainings."""
        self.path, self.prefix = path, prefix
        points = list(read(path))
        self.reached = max((point.step for point in points if f"{prefix}train/loss" in point.metrics), default=0)
        """The last step of a training that is in it."""
        self._known = {(name, point.step) for point in points for name in point.metrics}
        with open(path, "ab") as file:  # remove an incomplete last line
            file.truncate(points[-1].end if points else 0)

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
        fresh = {name: value for name, value in named.items() if (name, step) not in self._known}
        if not fresh:
            return
        line = {"step": step, "time": time.time(), "metrics": {k: _spell(v) for k, v in fresh.items()}}
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        self._known.update((name, step) for name in fresh)


def read(path: Path, start: int = 0) -> Iterator[Point]:
    """Yield the complete lines from byte `start` on."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.seek(start)
        for line in file:
            start += len(line)
            if not line.endswith(b"\n"):
                return
            entry = json.loads(line)
            metrics = {name: float(value) for name, value in entry["metrics"].items()}
            yield Point(entry["step"], entry["time"], metrics, start)


def _spell(value: float) -> float | str:
    """Return a JSON value: NaN and infinity as text."""
    return value if math.isfinite(value) else str(value)
