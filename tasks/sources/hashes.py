"""Splits and places of examples, by keyed hashes of each example alone.

The split is a hash of the example's group, of the key that the user named, or of the whole row as the source has it
(`tasks.records.assignment`); the place is a hash of its key. An example keeps both when others are added. The order
within a split does not depend on the number of shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tasks.draws import splitmix64

SPACE = 2**64

Handling = Literal["group", "drop", "keep"]
"""Values of `records.duplicates`."""

Hashes = NDArray[np.uint64]
"""[n]."""


def digests(values: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the 128-bit BLAKE2b digest of each value, uint64 [n, 2]."""
    joined = b"".join(hashlib.blake2b(value, digest_size=16).digest() for value in values)
    return np.frombuffer(joined, "<u8").astype(np.uint64).reshape(-1, 2)


def keyed(hashes: Hashes, seed: int, purpose: str) -> Hashes:
    """Return uniform integers in [0, 2^64) from uniform ones, with a seed below 2^63 and a purpose."""
    key = hashlib.blake2b(purpose.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return splitmix64(splitmix64(hashes ^ np.uint64(int.from_bytes(key, "little"))))


def bounds(shares: Mapping[str, float]) -> tuple[list[str], list[int]]:
    """Return the names of the splits, sorted, and the upper end of each in the hash space, the last one excepted.

    Digests do not depend on the order of a mapping, so neither may this.
    """
    names = sorted(shares)
    return names, [int(fsum(shares[name] for name in names[: index + 1]) * SPACE) for index in range(len(names) - 1)]


def split_numbers(hashes: Hashes, shares: Mapping[str, float], seed: int) -> NDArray[np.int64]:
    """Return the split of each example as its number among the sorted names."""
    _, ends = bounds(shares)
    values = keyed(hashes, seed, "split")
    return np.sum([values >= np.uint64(min(end, SPACE - 1)) for end in ends], axis=0, dtype=np.int64)


def places(keys: Hashes, seed: int) -> Hashes:
    """Return the place of each example in its split, from the hashes of the keys."""
    return keyed(keys, seed, "place")


def shard_bounds(shards: int) -> list[tuple[int, int]]:
    """Return the places [start, stop) of each shard."""
    return [(number * SPACE // shards, (number + 1) * SPACE // shards) for number in range(shards)]
