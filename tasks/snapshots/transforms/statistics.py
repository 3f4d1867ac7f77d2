"""What fitters gather in one pass: means and variances, and samples.

Moments are combined by the pairwise update of Chan, Golub and LeVeque (Stanford STAN-CS-79-773). Samples do not depend
on how rows come in batches: they are those with the smallest hash of their number.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.draws import splitmix64

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


KEY = np.uint64(0x6D696C6C72616365)
ROWS = 1 << 16
"""Rows of a sample of numbers: the rank of a quantile has a standard error of 0.2 %."""
OVERHEAD = 64
"""Bytes that a text costs in memory besides its own."""


def priorities(rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each row; small ones are sampled. Rows of different numbers differ."""
    return splitmix64(rows.astype(np.uint64) ^ KEY)


class NumberSample:
    """At most `ROWS` numbers: all, or the ones of the smallest priority (bottom-k sampling)."""

    def __init__(self) -> None:
        self._values = np.empty(0, np.float32)
        self._priorities = np.empty(0, np.uint64)

    def add(self, values: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        """Add the numbers of rows, without those that are missing."""
        present = ~np.isnan(values)
        self._append(values[present], priorities(rows[present]))

    @property
    def values(self) -> NDArray[np.float64]:
        """The sample, sorted."""
        order = np.argsort(self._priorities)[:ROWS]
        return np.sort(self._values[order].astype(np.float64))

    def _append(self, values: NDArray[np.float32], priority: NDArray[np.uint64]) -> None:
        self._values = np.concatenate([self._values, values])
        self._priorities = np.concatenate([self._priorities, priority])
        if len(self._values) > 2 * ROWS:
            kept = np.argpartition(self._priorities, ROWS)[:ROWS]
            self._values, self._priorities = self._values[kept], self._priorities[kept]


class TextSample:
    """Texts of about `size` bytes: the smallest priorities that have as many together, or all texts."""

    def __init__(self, size: int) -> None:
        self._size, self._held = size, 0
        self._heap: list[tuple[int, int, str]] = []  # the greatest priority first

    def add(self, texts: list[str], rows: NDArray[np.int64]) -> None:
        """Add the texts of rows, each up to the sample's size."""
        for text, row, priority in zip(texts, rows.tolist(), priorities(rows).tolist(), strict=True):
            if text:
                self._push((-priority, row, text[: self._size]))

    @property
    def texts(self) -> list[str]:
        """The sample, in order of the rows."""
        return [text for _, row, text in sorted(self._heap, key=lambda item: item[1])]

    def _push(self, item: tuple[int, int, str]) -> None:
        heapq.heappush(self._heap, item)
        self._held += _cost(item)
        while self._held - (greatest := _cost(self._heap[0])) >= self._size:
            heapq.heappop(self._heap)
            self._held -= greatest


def _cost(item: tuple[int, int, str]) -> int:
    return len(item[2].encode()) + OVERHEAD
