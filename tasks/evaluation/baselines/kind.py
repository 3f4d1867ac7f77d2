"""What a learned baseline is: how it reads examples, which estimators it is made of, how a report asks it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from tasks.config.task import LABEL, TARGET, WEIGHT
from tasks.evaluation.baselines.heads import HEADS
from tasks.evaluation.judging import Judge
from tasks.evaluation.splits import SnapshotSplit

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

SEED = 0


class Kind(Protocol):
    """Reads the examples of one kind of data."""

    name: ClassVar[str]
    """The name of the model, as `gradient boosting`."""
    rows: ClassVar[int]
    """Train examples that it learns from, at most."""
    left_out: tuple[str, ...]
    """What of the inputs it does not see, in words."""

    @classmethod
    def readable(cls, train: SnapshotSplit, names: list[str]) -> list[str]:
        """Return those of the inputs of its kinds that it can read."""
        return names

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn what reading needs (categories, words, scales) from train rows; `names`: the inputs of its kinds."""
        ...

    def values(self, split: SnapshotSplit, rows: Rows) -> Any:
        """Return what the estimators read of some rows of a split, [rows, columns]: an array, or a sparse matrix."""
        ...

    def classifier(self, iterations: int) -> Any:
        """Return an untrained classifier of scikit-learn."""
        ...

    def regressor(self, iterations: int) -> Any:
        """Return an untrained regressor of scikit-learn."""
        ...


def evenly(total: int, most: int) -> Rows:
    """Return `most` evenly spaced numbers below `total`, or all where there are no more: without a draw, and from every
    part of what is stored in some order."""
    count = min(total, most)
    return np.arange(count) * total // max(count, 1)


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


BLOCK = 4096
"""Examples that are in memory at once."""


class Estimated(Learned):
    """Has outputs as the model's: logits, or numbers in the targets' units."""

    def __init__(self, task: str, kind: type[Kind], names: list[str], train: SnapshotSplit) -> None:
        """Train on rows that are evenly spaced in the train split's stored order, with their weights.

        Args:
            names: the inputs of the records that the kind reads.
        """
        with self.timed():
            head, total = HEADS[task], _rows(train)
            rows = evenly(total, kind.rows)
            self.name, self.rows = kind.name, len(rows)
            weights = (
                np.asarray(train.arrays[WEIGHT][rows], np.float64) if WEIGHT in train.arrays else np.ones(len(rows))
            )
            truth = np.asarray(train.arrays[LABEL if head.of_classes else TARGET][rows])
            classes = len(train.features[LABEL]["classes"]) if head.of_classes else 0
            self.kind = kind(train, rows, names)
            self.head = head(self.kind, self.kind.values(train, rows), truth, weights, classes)
        fewer = (f"all but {len(rows):,} of {total:,} train examples",) if len(rows) < total else ()
        others = [feature.kind for name, feature in train.raw.items() if feature.role == "input" and name not in names]
        counts = {each: others.count(each) for each in sorted(set(others))}
        unread = tuple(f"{count} {each} column{'s' * (count > 1)}" for each, count in counts.items())
        self.left_out = (*fewer, *unread, *self.kind.left_out, *self.head.left_out)

    def outputs(self, split: SnapshotSplit) -> Floats:
        """Return the outputs by row, float32 [rows, classes, labels or targets]."""
        total = _rows(split)
        blocks = (np.arange(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))
        return np.concatenate([self.head.outputs(self.kind.values(split, rows)) for rows in blocks])

    def predict(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Return what the judge makes of the outputs, as of a model's."""
        return judge.predictions(judge.keep(self.outputs(split), 0))


def _rows(split: SnapshotSplit) -> int:
    return len(next(iter(split.arrays.values())))
