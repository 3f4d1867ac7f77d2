"""Random numbers that are functions of (seed, epoch, row): without state, the same for any batch size and layout."""

from __future__ import annotations

from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tasks.draws import Rows, scramble, split_number, splitmix64

STEP = np.uint64(0x9E3779B97F4A7C15)
"""Distance of the states of a splitmix64 generator (Steele, Lea and Flood, OOPSLA 2014)."""

Words = NDArray[np.uint64]
Numbers = NDArray[np.float32]


class Draws:
    """The numbers of some examples. Each number of an example is independent of the others; number 0, 1, ... of it are
    those of a splitmix64 generator whose state is the hash of (seed, place, epoch, row)."""

    def __init__(self, seed: int, place: int, epochs: Words, rows: Rows) -> None:
        """Create those of an augmentation, by its place in the list, for examples [n]."""
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

    def normal(self, number: int, count: int) -> Numbers:
        """Return numbers of the standard normal distribution, float32 [n, count], from the words from `number` on.

        They are quantiles in the middle of 65,536 parts of equal probability, so that no function of the processor's
        mathematical library decides their last bits.
        """
        words = self.words(number, -(-count // 4))
        return quantiles()[words.astype("<u8").view("<u2")[:, :count]]


@cache
def quantiles() -> Numbers:
    """Return the quantiles of the standard normal distribution, float32 [65536]."""
    normal = NormalDist()
    half = np.array([normal.inv_cdf((number + 0.5) / 65536) for number in range(32768)], np.float32)
    return np.concatenate([half, -half[::-1]])
