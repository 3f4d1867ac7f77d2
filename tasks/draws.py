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

STEP = np.uint64(0x9E3779B97F4A7C15)
"""Distance of the states of a splitmix64 generator (Steele, Lea and Flood, OOPSLA 2014)."""

Rows = NDArray[np.int64]
Words = NDArray[np.uint64]


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
    values = values + STEP
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def scramble(value: int) -> int:
    """Return the output of splitmix64 (Steele, Lea and Flood, OOPSLA 2014) for a state: a bijection of [0, 2^64)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class Draws:
    """The random numbers of an augmentation for some examples, independent of one another.

    Number 0, 1, ... of an example are those of a splitmix64 generator whose state is the hash of (seed, place, epoch,
    row).
    """

    def __init__(self, seed: int, place: int, epochs: Words, rows: Rows) -> None:
        """Create those of the augmentation at a place of the list, for examples [n]."""
        base = scramble(scramble(seed ^ split_number("augment")) ^ place)
        self._keys = splitmix64(splitmix64(np.uint64(base) ^ epochs) ^ rows.astype(np.uint64))

    def __len__(self) -> int:
        return len(self._keys)

    def words(self, number: int, count: int = 1) -> Words:
        """Return 64 random bits, uint64 [n, count], for the numbers from `number` on."""
        numbers = np.arange(number, number + count, dtype=np.uint64)
        return splitmix64(self._keys[:, None] + numbers * STEP)

    def uniform(self, number: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1), [n]."""
        return (self.words(number)[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def between(self, number: int, low: float, high: float) -> NDArray[np.float64]:
        """Return numbers in [low, high), [n]."""
        return low + (high - low) * self.uniform(number)

    def integers(self, number: int, below: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return integers in [0, below), [n]; `below` is less than 2^32, for all or for each."""
        high = self.words(number)[:, 0] >> np.uint64(32)
        return ((high * np.asarray(below, np.uint64)) >> np.uint64(32)).astype(np.int64)

    def normal(self, number: int, count: int) -> NDArray[np.float32]:
        """Return numbers of the standard normal distribution, float32 [n, count], from the words from `number` on.

        They are quantiles in the middle of 65,536 parts of equal probability, so that no function of the processor's
        mathematical library decides their last bits.
        """
        words = self.words(number, -(-count // 4))
        return quantiles()[words.astype("<u8").view("<u2")[:, :count]]


@cache
def quantiles() -> NDArray[np.float32]:
    """Return the quantiles of the standard normal distribution, float32 [65536]."""
    from statistics import NormalDist

    normal = NormalDist()
    half = np.array([normal.inv_cdf((number + 0.5) / 65536) for number in range(32768)], np.float32)
    return np.concatenate([half, -half[::-1]])
