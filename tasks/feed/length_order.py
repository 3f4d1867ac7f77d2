"""The order of examples by length: order version 1c, for texts whose batches have little padding (contract 8).

Version 1 is cut into windows of `WINDOW` global batches. The rows of a window are sorted by their length and dealt out
to its batches, which are in a shuffled order: batches of similar length (as in fairseq, Ott et al., NAACL 2019) without
state. Every epoch is a bijection, as in version 1; the batch size is part of the order (docs/order.md).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tasks.draws import Rows, permutation

WINDOW = 64
"""Batches of a window."""


class LengthOrder:
    """Rows at positions of an epoch, near to others of their length; keeps the latest windows, but has no state."""

    def __init__(self, lengths: Any, batch_size: int, batches_of_window: int = WINDOW) -> None:
        """Create the order of rows with these lengths, an integer array [N], in global batches of a size.

        Args:
            batches_of_window: `WINDOW` in version 1c; with another number it is another order.
        """
        self._lengths, self._batch_size, self._batches_of_window = lengths, batch_size, batches_of_window
        self._window = lru_cache(maxsize=2)(self._rows_of)

    def __call__(self, positions: Rows, n: int, seed: int, epoch: int, split: str) -> Rows:
        """Return the rows at these positions of an epoch, int64 of the same shape; a bijection of range(n)."""
        size = self._batches_of_window * self._batch_size
        before = epoch * n % size  # positions of the first window that are in earlier epochs
        places = np.asarray(positions, np.int64)
        rows, windows = np.empty_like(places), (places + before) // size
        for window in np.unique(windows).tolist():
            begin, stop = max(window * size - before, 0), min((window + 1) * size - before, n)
            inside = windows == window
            rows[inside] = self._window(begin, stop, n, seed, epoch, split)[places[inside] - begin]
        return rows

    def _rows_of(self, begin: int, stop: int, n: int, seed: int, epoch: int, split: str) -> Rows:
        """Return the rows at the positions [begin, stop) of an epoch, which are in one window."""
        rows = permutation(np.arange(begin, stop), n, seed, epoch, split)
        rows = rows[np.argsort(self._lengths[rows], kind="stable")]
        first = begin - (epoch * n + begin) % self._batch_size  # where the batch begins that has position `begin`
        starts = np.maximum(np.arange(first, stop, self._batch_size), begin) - begin
        sizes = np.diff([*starts, stop - begin])
        batches = permutation(np.arange(len(starts)), len(starts), seed, epoch, f"{split}/lengths{begin}")
        dealt = np.empty_like(rows)
        dealt[np.concatenate([np.arange(starts[batch], starts[batch] + sizes[batch]) for batch in batches])] = rows
        return dealt
