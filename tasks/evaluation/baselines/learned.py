"""A baseline that is trained, as a report asks it for predictions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.evaluation.judging import Judge
from tasks.evaluation.splits import SnapshotSplit


class Learned:
    """A simple model, trained on the train split."""

    name: str
    """What it is, as `gradient boosting`."""
    rows: int
    """Train examples that it learned from."""
    left_out: tuple[str, ...] = ()
    """What it does not see, in words."""
    seconds: float = 0.0
    """Time that it took so far; in no report, whose bytes are the same each time."""

    def predictions(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Return the judge's `Predictions` for the examples of a split, from which any metric of the task follows."""
        with self.timed():
            return self.predict(judge, split)

    def predict(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Do the work of `predictions`."""
        raise NotImplementedError

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time of what is done within to `seconds`."""
        started = time.monotonic()
        yield
        self.seconds += time.monotonic() - started
