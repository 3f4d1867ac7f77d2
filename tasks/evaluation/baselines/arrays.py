"""Baselines of images and sounds: linear models of arrays that are made small by averaging."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tasks.evaluation.baselines.kind import Floats, Kind, Rows
from tasks.evaluation.splits import SnapshotSplit
from tasks.snapshots.transforms import own_array

STRENGTH = 1.0
"""Of the penalty of squared weights, for inputs of unit size."""


def classifier(iterations: int, strength: float = STRENGTH) -> Any:
    """Return logistic regression by L-BFGS, which draws nothing."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / strength, max_iter=iterations)


def regressor(iterations: int, strength: float = STRENGTH) -> Any:
    """Return ridge regression by LSQR, which draws nothing."""
    from sklearn.linear_model import Ridge

    return Ridge(alpha=strength, max_iter=iterations, solver="lsqr")


ROWS = 20_000
"""Train examples that are learned from, at most."""
BLOCK_BYTES = 64 << 20
"""Bytes of arrays that are read at once, at most, or one example."""


class Grids(Kind):
    """A linear model of the snapshot's arrays of some columns, each shrunk to `cells`."""

    name: ClassVar[str]
    rows: ClassVar[int] = ROWS
    cells: ClassVar[tuple[int, int]]
    """The size of the first two axes after averaging, at most."""

    @classmethod
    def readable(cls, train: SnapshotSplit, names: list[str]) -> list[str]:
        """Return the columns with an array of their own: a function of the user's can make numbers of an image."""
        return [name for name in names if own_array(name) in train.arrays]

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn mean and standard deviation of each cell."""
        self._names = [own_array(name) for name in names]
        self.left_out: tuple[str, ...] = ()
        self._mean: Floats = np.zeros(1, np.float32)
        self._deviation: Floats = np.ones(1, np.float32)
        values = self.values(train, rows)
        self._mean, deviation = values.mean(axis=0), values.std(axis=0)
        self._deviation = np.where(deviation > 0, deviation, 1).astype(np.float32)

    def values(self, split: SnapshotSplit, rows: Rows) -> Floats:
        """Return float32 [rows, cells]."""
        parts = [self._shrunk(split.arrays[name], rows) for name in self._names]
        standardised: Floats = (np.concatenate(parts, axis=1) - self._mean) / self._deviation
        return standardised

    def _shrunk(self, array: Any, rows: Rows) -> Floats:
        size = max(1, BLOCK_BYTES // (int(np.prod(array.shape[1:])) * 8))
        starts = range(0, len(rows), size)
        return np.concatenate([shrunk(np.asarray(array[rows[at : at + size]]), self.cells) for at in starts])

    def classifier(self, iterations: int) -> Any:
        """Return logistic regression."""
        return classifier(iterations)

    def regressor(self, iterations: int) -> Any:
        """Return ridge regression."""
        return regressor(iterations)


def shrunk(values: npt.NDArray[Any], cells: tuple[int, int]) -> Floats:
    """Return arrays [n, height, width, ...] as means over at most `cells` equal parts of both, float32 [n, m].

    Of arrays [n, values] it is the values; NaN counts as 0.
    """
    small: npt.NDArray[Any] = np.nan_to_num(values.astype(np.float64))
    for axis, most in zip(range(1, small.ndim), cells, strict=False):
        size = small.shape[axis]
        begins = np.arange(min(size, most)) * size // min(size, most)
        widths = np.diff([*begins, size]).reshape([-1 if place == axis else 1 for place in range(small.ndim)])
        small = np.add.reduceat(small, begins, axis=axis) / widths
    return small.reshape(len(small), -1).astype(np.float32)


class Images(Grids):
    """The snapshot's images, shrunk to at most 8 x 8 pixels by averaging, with their channels."""

    name: ClassVar[str] = "linear model of 8 x 8 pixels"
    cells: ClassVar[tuple[int, int]] = (8, 8)


class Sounds(Grids):
    """The snapshot's spectra [frames, bands], averaged over at most 8 spans of time and 16 groups of bands."""

    name: ClassVar[str] = "linear model of 8 x 16 spectra"
    cells: ClassVar[tuple[int, int]] = (8, 16)
