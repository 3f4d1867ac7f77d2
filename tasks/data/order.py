"""The order of examples, computed without state: order version 1 (contract 8; test vectors in docs/order.md).

A split of N examples is shuffled in each epoch by a keyed permutation of range(N): a six-round Feistel network over
the next even number of bits, applied again to results outside of the range (cycle walking; Black and Rogaway, CT-RSA
2002). Positions are independent, so that a batch is a function of (seed, split, step), with any number of replicas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Refused

ORDER_VERSION = 1
ROUNDS = 6
MASK = 2**64 - 1

Rows = NDArray[np.int64]
Weights = NDArray[np.float32]
EpochOrder = Callable[[Rows, int, int, int, str], Rows]
"""From positions in an epoch, the number of examples, seed, epoch and split to the rows there; a bijection."""


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
    _check(n, seed, epoch)
    if places.size and not (places.min() >= 0 and places.max() < n):
        raise ValueError(f"positions from {places.min()} to {places.max()}: must be in [0, {n})")
    return _permuted(places, n, round_keys(seed, epoch, split)[:, None])


def position(row: int, n: int, seed: int, epoch: int, split: str = "train") -> int:
    """Return the position of a row in an epoch: the inverse of `permutation`, with its arguments."""
    _check(n, seed, epoch)
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


def stored(positions: Rows, n: int, seed: int, epoch: int, split: str) -> Rows:
    """Return the positions: 0, 1, 2, ... in every epoch."""
    return positions


def _check(n: int, seed: int, epoch: int) -> None:
    if not 0 < n <= 2**62 or not 0 <= seed < 2**63 or not 0 <= epoch < 2**63:
        raise ValueError(f"n={n}, seed={seed}, epoch={epoch}: needs 0 < n <= 2^62 and 0 <= seed, epoch < 2^63")


def _permuted(places: Rows, n: int, keys: NDArray[np.uint64]) -> Rows:
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


def steps_of(epochs: int, n: int, batch_size: int) -> int:
    """Return the number of global steps of `epochs` epochs of n examples; the last may have examples with weight 0."""
    return -(-epochs * n // batch_size)


def batch_rows(
    step: int,
    batch_size: int,
    n: int,
    seed: int,
    split: str = "train",
    *,
    steps: int = 1,
    replica: int = 0,
    replicas: int = 1,
    epochs: int | None = None,
    order: EpochOrder = permutation,
) -> tuple[Rows, Weights]:
    """Return rows (int64) and weights (float32) of a replica at the global steps [step, step + steps).

    Both are [steps, batch_size / replicas]. Step k has the positions [k * batch_size, (k + 1) * batch_size) of the
    concatenated epochs, so that a batch may cross epochs; a replica has a contiguous slice of it. The weight is 0 after
    the end of `epochs` epochs, else 1. `order` is that within an epoch.

    Raises:
        Refused: the batch size does not divide by the number of replicas.
    """
    epoch, passes, positions = _places(step, batch_size, n, steps, replica, replicas)
    last = int(passes.max(initial=0))
    if order is permutation:  # of all epochs at once
        _check(n, seed, epoch + last)
        keys = np.stack([round_keys(seed, epoch + number, split) for number in range(last + 1)], axis=1)
        rows = _permuted(positions, n, keys if last == 0 else keys[:, passes.ravel()])
    else:
        rows = np.empty_like(positions)
        for number in np.unique(passes).tolist():
            now = passes == number
            rows[now] = order(positions[now], n, seed, epoch + number, split)
    if epochs is None:
        return rows, np.ones(rows.shape, np.float32)
    return rows, (passes < epochs - epoch).astype(np.float32)


def batch_epochs(
    step: int, batch_size: int, n: int, *, steps: int = 1, replica: int = 0, replicas: int = 1
) -> NDArray[np.uint64]:
    """Return the epoch of each row of `batch_rows`, uint64 [steps, batch_size / replicas]."""
    epoch, passes, _ = _places(step, batch_size, n, steps, replica, replicas)
    return np.uint64(epoch) + passes.astype(np.uint64)


def _places(step: int, batch_size: int, n: int, steps: int, replica: int, replicas: int) -> tuple[int, Rows, Rows]:
    """Return the first epoch, and of each example the epochs after it and the position in its epoch, int64
    [steps, batch_size / replicas]."""
    share = replica_share(batch_size, replicas)
    # In Python integers, as NumPy's would overflow: 10^12 steps of 2^24 examples.
    first = step * batch_size + replica * share
    epoch, offset = divmod(first, n)
    within = offset + np.arange(steps, dtype=np.int64)[:, None] * batch_size + np.arange(share, dtype=np.int64)
    passes, positions = np.divmod(within, n)
    return epoch, passes, positions


def replica_share(batch_size: int, replicas: int) -> int:
    """Return the number of examples of each replica in a global batch.

    Raises:
        Refused: the batch size does not divide; the error names the nearest that do.
    """
    if batch_size % replicas == 0:
        return batch_size // replicas
    above = -(-batch_size // replicas) * replicas
    nearest = f"use {above - replicas} or {above}" if above > replicas else f"use {above}"
    raise Refused("train.batch_size", batch_size, f"must divide by the number of replicas, {replicas}", nearest)


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
