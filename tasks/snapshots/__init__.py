"""Snapshots, records as fixed-layout arrays (the kinds are in `config.py`).

TensorFlow is imported inside functions, as the flow's process imports this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

LENGTHS = "lengths"
"""The array with the number of tokens of each row's longest text."""
RECORD_HASHES = "records.npy"
"""The file in the folder of a split with the hash of each record."""


@dataclass(frozen=True)
class ArrayShard:
    """A shard of a split: the rows [start, stop)."""

    split: str
    number: int
    total: int
    start: int
    stop: int

    def file(self, name: str) -> str:
        return f"{self.split}/{name}-{self.number:05d}-of-{self.total:05d}.npy"


class Progress:
    """Reports what is done of a total: each time that `every` more of it are done, and at its end."""

    def __init__(self, bench: Workbench, total: int, unit: str, every: int) -> None:
        self._bench, self._total, self._unit, self._every = bench, total, unit, every
        self._finished = self._reported = 0

    def __call__(self, done: int) -> None:
        """Report what is done besides what is finished."""
        now = self._finished + done
        if now - self._reported >= self._every or now == self._total:
            self._reported = now
            self._bench.progress(now, self._total, self._unit)

    def finish(self, size: int) -> None:
        """Count so much as finished."""
        self._finished += size
        self(0)


def parts_of(split: str, count: int, shards: int) -> list[ArrayShard]:
    """Divide a split into at most `shards` shards, none empty, all but the last of equal length."""
    rows_per_part = -(-count // shards)
    total = -(-count // rows_per_part)
    return [
        ArrayShard(split, number, total, number * rows_per_part, min(count, (number + 1) * rows_per_part))
        for number in range(total)
    ]


def write_array(bench: Workbench, name: str, array: NDArray[Any]) -> None:
    """Write an array file, unless an earlier attempt finished it."""
    from tasks.records.arrays import ArrayWriter

    if bench.staging.adopt(name) is None:
        with bench.staging.piece(name) as piece, ArrayWriter(piece.path, array.dtype, array.shape) as writer:
            writer.append(array)


def write_hashes(bench: Workbench, hashes: NDArray[np.uint64], split: str) -> None:
    """Write the hash of each record of a split, by which its rows are recognised in other records."""
    write_array(bench, f"{split}/{RECORD_HASHES}", hashes)


def lineage_of(rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return `origin` and `pieces` of rows that are one record each, with the same number."""
    ones, zeros = np.ones_like(rows), np.zeros_like(rows)
    return {"origin": np.stack([rows, ones], axis=1), "pieces": np.stack([rows, zeros, ones, zeros], axis=1)}
