"""Records to a snapshot: fixed-layout arrays (contract 7). One file per `snapshot.kind`; each offers `build`.

TensorFlow is imported inside functions: the flow's process reads the constants here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Outcome, Records
from tasks.config import SnapshotConfig
from tasks.data.arrays import ArrayWriter

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

KINDS = {
    "image": "tasks.data.snapshots.image",
    "tokens": "tasks.data.snapshots.tokens",
    "table": "tasks.data.snapshots.table",
}
"""The module of each `snapshot.kind`; imported when it is asked for."""

CODE: dict[str, tuple[int, tuple[str, ...]]] = {
    # Pillow, which turns images upright, is in the digest of the records.
    "image": (1, ("numpy", "tensorflow")),
    "tokens": (2, ("numpy", "tokenizers")),
    "table": (1, ("numpy",)),
}
"""Of each kind the version of its code and the libraries that decide its bytes."""


@dataclass(frozen=True)
class Part:
    """One shard of a split: the rows [start, stop)."""

    split: str
    number: int
    total: int
    start: int
    stop: int

    def file(self, name: str) -> str:
        return f"{self.split}/{name}-{self.number:05d}-of-{self.total:05d}.npy"


def build(bench: Workbench, records: Records, config: SnapshotConfig) -> Outcome:
    """Preprocess records as `config.kind` says. Counts: rows of each split; features: their layout by name."""
    outcome: Outcome = import_module(KINDS[config.kind]).build(bench, records, config)
    return outcome


def parts_of(split: str, count: int, shards: int) -> list[Part]:
    """The rows of a split in at most `shards` files, none empty, all but the last of equal length."""
    each = -(-count // shards)
    total = -(-count // each)
    return [Part(split, number, total, number * each, min(count, (number + 1) * each)) for number in range(total)]


def write_array(bench: Workbench, name: str, array: NDArray[Any]) -> None:
    """One array file, unless an earlier attempt finished it."""
    if bench.staging.adopt(name) is None:
        with bench.staging.piece(name) as piece, ArrayWriter(piece.path, array.dtype, array.shape) as writer:
            writer.append(array)


def lineage_of(rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """`origin` and `pieces` where each row is one record, the one of its number."""
    ones, zeros = np.ones_like(rows), np.zeros_like(rows)
    return {"origin": np.stack([rows, ones], axis=1), "pieces": np.stack([rows, zeros, ones, zeros], axis=1)}
