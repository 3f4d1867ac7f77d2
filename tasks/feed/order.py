"""The order of examples, computed without state: order version 1 (test vectors in docs/order.md).

A split of N examples is shuffled in each epoch by a keyed permutation of range(N) (`tasks.draws`). Positions are
independent, so that a batch is a function of (seed, split, step), with any number of replicas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tasks.draws import Rows, check_range, permutation, permuted, round_keys
from tasks.errors import Refused

ORDER_VERSION = 1

Weights = NDArray[np.float32]
EpochOrder = Callable[[Rows, int, int, int, str], Rows]
"""From positions in an epoch, the number of examples, seed, epoch and split to the rows there; a bijection."""


def stored(positions: Rows, n: int, seed: int, epoch: int, split: str) -> Rows:
    """Return the positions: 0, 1, 2, ... in every epoch."""
    return positions


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
        check_range(n, seed, epoch + last)
        keys = np.stack([round_keys(seed, epoch + number, split) for number in range(last + 1)], axis=1)
        rows = permuted(positions, n, keys if last == 0 else keys[:, passes.ravel()])
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
