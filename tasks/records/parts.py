"""The rows of all runs by hash, a part of the hash space at a time, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.records.merging import Runs
from tasks.sources.hashes import SPACE

PART = 1 << 20
"""Rows that are compared at once, about."""

Mask = NDArray[np.bool_]
Dropped = Mapping[int, Mask]
"""By run, which of its rows are dropped; of runs that lose some."""


def parts(runs: Runs, columns: tuple[str, ...], dropped: Dropped) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the rows whose first column is in a part of the hash space: columns, `run` and `row`."""
    number = max(1, -(-runs.total // PART))
    for part in range(number):
        low, high = np.uint64(part * SPACE // number), np.uint64((part + 1) * SPACE // number - 1)
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in (*columns, "run", "row")}
        for run in runs.numbers:
            values = runs.column(run, columns[0])
            within = (values >= low) & (values <= high)
            rows = np.flatnonzero(within & ~dropped[run] if run in dropped else within)
            for name in columns:
                found[name].append(runs.column(run, name)[rows])
            found["run"].append(np.full(len(rows), run, np.int32))
            found["row"].append(rows.astype(np.int32))
        yield {name: np.concatenate(found.pop(name)) for name in list(found)}  # without keeping both


def neighbours(same: Mask, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of equal neighbours in an order; `same` says which rows equal the one before them."""
    changes = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
    for begin, end in zip(np.flatnonzero(changes == 1), np.flatnonzero(changes == -1), strict=True):
        yield order[begin : end + 1]
