"""Metrics by step, first to a local file: a tracking outage can neither slow a training nor lose a point.

One JSON line per step: `{"step": 20, "time": 1790000000.0, "metrics": {"train/loss": 0.3}}`. A resumed training
passes steps again that its killed predecessor had already written: the first time of each point stays.
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
    """One line of the journal and where the next one begins, in bytes."""

    step: int
    time: float
    metrics: dict[str, float]
    end: int


class JournalFile:
    """The journal of one run, `metrics.jsonl`, as a writer sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        points = list(read(path))
        self._known = {(name, point.step) for point in points for name in point.metrics}
        with open(path, "ab") as file:  # a line torn by a kill goes
            file.truncate(points[-1].end if points else 0)

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Add what is new at this step; a name already written at it keeps its first value and time."""
        fresh = {name: float(value) for name, value in metrics.items() if (name, step) not in self._known}
        if not fresh:
            return
        line = {"step": step, "time": time.time(), "metrics": {k: _spell(v) for k, v in fresh.items()}}
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        self._known.update((name, step) for name in fresh)


def read(path: Path, start: int = 0) -> Iterator[Point]:
    """The whole lines from byte `start` on."""
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
    """JSON has no NaN and no infinity; their names read back as floats."""
    return value if math.isfinite(value) else str(value)
