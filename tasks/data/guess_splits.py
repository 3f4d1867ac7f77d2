"""Shares of splits, and a seed with which none is empty, for `millrace init`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.data.encoding import bytes_entry, join, values_of
from tasks.data.split import Hashes, bounds, digests, split_numbers
from tasks.errors import Refused

SHARES = ({"train": 0.8, "validation": 0.1, "test": 0.1}, {"train": 0.6, "validation": 0.2, "test": 0.2})
HELD_OUT_BYTES = 500_000
"""Bytes of text that are enough for validation and for test."""
FEW_TEXTS = 30
SEEDS = 1000
FEW_EXAMPLES = 1000
"""With fewer examples a split may be empty by chance: seeds are tried, and every text is read."""


def shares_of_text(size: int, count: int) -> tuple[dict[str, float], ...]:
    """Return candidate splits: a smaller share of much text, a larger one of few texts."""
    share = float(f"{min(0.1, HELD_OUT_BYTES / max(size, 1)):.1g}")
    much = {"train": round(1 - 2 * share, 9), "validation": share, "test": share}
    return SHARES[1:] if count < FEW_TEXTS else (much, *SHARES)


def contents_of(count: int, entries: Callable[[], Iterable[bytes]]) -> Hashes:
    """Return a hash of the content of each example; of many their number serves, as any uniform hash does here.

    `entries` returns the examples' input as it is in records.
    """
    if count >= FEW_EXAMPLES:
        return digests([str(number).encode() for number in range(count)])[:, 0]
    return digests(list(entries()))[:, 0]


def file_contents(root: Path, names: list[str], name: str) -> Hashes:
    """Return a hash of the content of each file, as that of an input of this name."""
    return contents_of(len(names), lambda: (entry_of(name, (root / path).read_bytes()) for path in names))


def entry_of(name: str, payload: bytes) -> bytes:
    """Return the only input of an example as it is in records, whose hash decides the split."""
    return values_of(join(*bytes_entry(name, pa.array([payload], pa.large_binary()))))[0]


def choose_splits(contents: Hashes, shares: Iterable[dict[str, float]], remedy: str) -> tuple[dict[str, float], int]:
    """Return the first of these shares, and a seed, with which no split is empty or, of few examples, too small."""
    count = len(contents)
    for candidate in shares:
        names, _ = bounds(candidate)
        held_out = {name: round(share * count) if count < FEW_EXAMPLES else 1 for name, share in candidate.items()}
        least = {**held_out, "train": 1}
        for seed in range(SEEDS if count < FEW_EXAMPLES else 1):
            filled = np.bincount(split_numbers(contents, candidate, seed), minlength=len(names))
            if all(filled[names.index(name)] >= max(1, number) for name, number in least.items()):
                return candidate, seed
    raise Refused("PATH", f"{count} examples", "train, validation and test need one each", remedy)
