"""Random numbers and permutations computed without state: the same on every machine, for any position alone.

A permutation of range(N) is a six-round Feistel network over the next even number of bits, applied again to results
outside of the range (cycle walking; Black and Rogaway, CT-RSA 2002).
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

ROUNDS = 6
MASK = 2**64 - 1

Rows = NDArray[np.int64]


def permutation(positions: Rows, n: int, seed: int, epoch: int, split: str = "train") -> Rows:
    """Return the rows at these positions of an epoch, int64 of the same shape; a bijection of range(n).

    Args:
        positions: int64, any shape, each in [0, n).
        n: number of examples, 0 < n <= 2^62.
        seed: 0 <= seed < 2^63.
        epoch: 0 <= epoch < 2^63.

    Raises:
        ValueError: an argument is outside of its range.
    """
    places = np.asarray(positions, dtype=np.int64)
    check_range(n, seed, epoch)
    if places.size and not (places.min() >= 0 and places.max() < n):
        raise ValueError(f"positions from {places.min()} to {places.max()}: must be in [0, {n})")
    return permuted(places, n, round_keys(seed, epoch, split)[:, None])


def position(row: int, n: int, seed: int, epoch: int, split: str = "train") -> int:
    """Return the position of a row in an epoch: the inverse of `permutation`, with its arguments."""
    check_range(n, seed, epoch)
    if not 0 <= row < n:
        raise ValueError(f"row {row}: must be in [0, {n})")
    half = (max(2, (n - 1).bit_length()) + 1) // 2
    mask, keys = (1 << half) - 1, [int(key) for key in reversed(round_keys(seed, epoch, split))]
    while True:
        left, right = row >> half, row & mask
        for key in keys:
            left, right = right ^ (scramble(left + key) & mask), left
        row = (left << half) | right
        if row < n:
            return row


def check_range(n: int, seed: int, epoch: int) -> None:
    """Raise `ValueError` where an argument of `permutation` is outside of its range."""
    if not 0 < n <= 2**62 or not 0 <= seed < 2**63 or not 0 <= epoch < 2**63:
        raise ValueError(f"n={n}, seed={seed}, epoch={epoch}: needs 0 < n <= 2^62 and 0 <= seed, epoch < 2^63")


def permuted(places: Rows, n: int, keys: NDArray[np.uint64]) -> Rows:
    """Return the rows at these positions, with round keys uint64 [rounds, 1], or [rounds, positions] of the flat ones.

    One call for the positions of many epochs: small splits have few positions in each.
    """
    bits = max(2, (n - 1).bit_length())
    half = np.uint64((bits + 1) // 2)
    mask = np.uint64((1 << int(half)) - 1)
    values = places.astype(np.uint64).ravel()
    outside = np.arange(values.size)
    while outside.size:
        left, right = values[outside] >> half, values[outside] & mask
        for key in keys if keys.shape[1] == 1 else keys[:, outside]:
            left, right = right, left ^ (splitmix64(right + key) & mask)
        values[outside] = (left << half) | right
        outside = outside[values[outside] >= n]
    return values.astype(np.int64).reshape(places.shape)


def round_keys(seed: int, epoch: int, split: str) -> NDArray[np.uint64]:
    """Return the round keys, uint64 [6]: splitmix64 chained over seed, epoch, split and round.

    Chained, not added: sums of different seeds and epochs can be equal.
    """
    chain = 0
    for part in (seed, epoch, split_number(split)):
        chain = scramble(chain ^ part)
    return np.array([scramble(chain ^ number) for number in range(ROUNDS)], dtype=np.uint64)


@cache
def split_number(split: str) -> int:
    """Return a split's name as an integer: the first eight bytes of its SHA-256, little-endian."""
    return int.from_bytes(hashlib.sha256(split.encode()).digest()[:8], "little")


def splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply `scramble` to every element; arrays of uint64 wrap without a warning."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def scramble(value: int) -> int:
    """Return the output of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) for a state: a bijection of [0, 2^64)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)
