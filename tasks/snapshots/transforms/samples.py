"""Samples of rows that do not depend on how rows come in batches: those with the smallest hash of their number."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from tasks.draws import splitmix64

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
