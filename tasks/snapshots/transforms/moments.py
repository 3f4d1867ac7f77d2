"""Means and variances in one pass, by the pairwise update of Chan, Golub and LeVeque (Stanford STAN-CS-79-773)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CONSTANT = 1e-28
"""A variance of at most this part of the squared mean is rounding: float32 values that differ have more."""


class Moments:
    """Number, mean and sum of squared differences of the values at each place of an array, float64 [*shape]."""

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.count, self.mean, self.squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def add(self, values: NDArray[Any]) -> None:
        """Add values [rows, *shape]; NaN is no value."""
        present = ~np.isnan(values)
        count = present.sum(axis=0).astype(np.float64)
        mean = np.where(present, values, 0).sum(axis=0, dtype=np.float64) / np.maximum(count, 1)
        squares = (np.where(present, values - mean, 0) ** 2).sum(axis=0, dtype=np.float64)
        self._combine(count, mean, squares)

    def merge(self, other: Moments) -> None:
        """Add the values of others."""
        self._combine(other.count, other.mean, other.squares)

    def filled(self, value: Any, count: NDArray[np.float64]) -> Moments:
        """Return the moments with `count` more values, which are all equal."""
        more = Moments(self.mean.shape)
        more.merge(self)
        more._combine(count, np.asarray(value, np.float64), np.zeros(self.mean.shape))
        return more

    def of_last_axis(self) -> Moments:
        """Return the moments of all values at each place of the last axis."""
        places = self.mean.reshape(-1, self.mean.shape[-1])
        pooled = Moments(places.shape[1:])
        for count, mean, squares in zip(
            self.count.reshape(places.shape), places, self.squares.reshape(places.shape), strict=True
        ):
            pooled._combine(count, mean, squares)
        return pooled

    @property
    def variance(self) -> NDArray[np.float64]:
        """The variance at each place, 1 where all values are equal, so that one can divide by it."""
        variance = self.squares / np.maximum(self.count, 1)
        return np.where(variance > CONSTANT * self.mean**2, variance, 1.0)

    def as_json(self) -> dict[str, Any]:
        """Return `mean` and `variance` as lists."""
        return {"mean": np.atleast_1d(self.mean).tolist(), "variance": np.atleast_1d(self.variance).tolist()}

    def _combine(self, count: NDArray[Any], mean: NDArray[Any], squares: NDArray[Any]) -> None:
        total = np.maximum(self.count + count, 1)
        delta = mean - self.mean
        self.squares = self.squares + squares + delta**2 * (self.count * count / total)
        self.mean = self.mean + delta * (count / total)
        self.count = self.count + count
