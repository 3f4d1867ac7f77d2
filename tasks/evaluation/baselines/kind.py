"""What a kind of learned baseline is: how it reads examples, and which estimators of scikit-learn it is made of."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

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
