"""The orders of a split's examples, computed without state (test vectors in docs/order.md).

Version 1: a split of N examples is shuffled in each epoch by a keyed permutation of range(N) (`tasks.draws`). Positions
are independent, so that a batch is a function of (seed, split, step), with any number of replicas.

In blocks: blocks of about a mebibyte of consecutive rows are permuted, the short last one with them; then the rows of
each window of `WINDOW` consecutive blocks of that order. A window is read block by block, and stays in the page cache
while it is used. Nothing is dropped, as in version 1.

By length: version 1 is cut into windows of `WINDOW` global batches. The rows of a window are sorted by their length and
dealt out to its batches, which are in a shuffled order: batches of similar length (as in fairseq, Ott et al., NAACL
2019) without state. Every epoch is a bijection, as in version 1; the batch size is part of the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tasks.draws import Rows, check_range, permutation, permuted, position, round_keys
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


BLOCK_BYTES = 1 << 20
WINDOW = 64
"""Blocks of a window."""


def rows_per_block(row_bytes: int) -> int:
    """Return the rows of a block, from the bytes of a row in all arrays."""
    return max(1, BLOCK_BYTES // max(1, row_bytes))


def permutation_in_blocks(
    positions: Rows, n: int, seed: int, epoch: int, split: str, block: int, blocks_of_window: int = WINDOW
) -> Rows:
    """Return the rows at these positions of an epoch, int64 of the same shape; a bijection of range(n).

    Args:
        positions: int64, any shape, each in [0, n).
        n: number of examples.
        block: rows of a block.
        blocks_of_window: `WINDOW` in version 1b; with another number it is another order.
    """
    places = np.asarray(positions, np.int64)
    blocks = -(-n // block)
    lacking = blocks * block - n  # rows that the last block has less
    order_of_blocks = f"{split}/blocks"
    short = position(blocks - 1, blocks, seed, epoch, order_of_blocks)
    size = blocks_of_window * block

    def start(window: Rows) -> Rows:
        """Return the first position of windows: those after the short block begin earlier."""
        return np.minimum(window * size - np.where(window > short // blocks_of_window, lacking, 0), n)

    windows = np.minimum(places // size, short // blocks_of_window)
    later = places >= start(np.asarray(short // blocks_of_window + 1))
    windows = np.where(later, (places + lacking) // size, windows)
    mixed = np.empty_like(places)
    for window in np.unique(windows):
        first, stop = (int(start(np.asarray(number))) for number in (window, window + 1))
        inside = windows == window
        name = f"{split}/window{window}"
        mixed[inside] = first + permutation(places[inside] - first, stop - first, seed, epoch, name)
    # positions of a row among full blocks, as if the short one were full
    full = np.where(mixed >= (short + 1) * block - lacking, mixed + lacking, mixed)
    at, offset = np.divmod(full, block)
    return permutation(at, blocks, seed, epoch, order_of_blocks) * block + offset


class LengthOrder:
    """Rows at positions of an epoch, near to others of their length; keeps the latest windows, but has no state."""

    def __init__(self, lengths: Any, batch_size: int, batches_of_window: int = WINDOW) -> None:
        """Create the order of rows with these lengths, an integer array [N], in global batches of a size.

        Args:
            batches_of_window: `WINDOW` in version 1c; with another number it is another order.
        """
        self._lengths, self._batch_size, self._batches_of_window = lengths, batch_size, batches_of_window
        self._window = lru_cache(maxsize=2)(self._rows_of)

    def __call__(self, positions: Rows, n: int, seed: int, epoch: int, split: str) -> Rows:
        """Return the rows at these positions of an epoch, int64 of the same shape; a bijection of range(n)."""
        size = self._batches_of_window * self._batch_size
        before = epoch * n % size  # positions of the first window that are in earlier epochs
        places = np.asarray(positions, np.int64)
        rows, windows = np.empty_like(places), (places + before) // size
        for window in np.unique(windows).tolist():
            begin, stop = max(window * size - before, 0), min((window + 1) * size - before, n)
            inside = windows == window
            rows[inside] = self._window(begin, stop, n, seed, epoch, split)[places[inside] - begin]
        return rows

    def _rows_of(self, begin: int, stop: int, n: int, seed: int, epoch: int, split: str) -> Rows:
        """Return the rows at the positions [begin, stop) of an epoch, which are in one window."""
        rows = permutation(np.arange(begin, stop), n, seed, epoch, split)
        rows = rows[np.argsort(self._lengths[rows], kind="stable")]
        first = begin - (epoch * n + begin) % self._batch_size  # where the batch begins that has position `begin`
        starts = np.maximum(np.arange(first, stop, self._batch_size), begin) - begin
        sizes = np.diff([*starts, stop - begin])
        batches = permutation(np.arange(len(starts)), len(starts), seed, epoch, f"{split}/lengths{begin}")
        dealt = np.empty_like(rows)
        dealt[np.concatenate([np.arange(starts[batch], starts[batch] + sizes[batch]) for batch in batches])] = rows
        return dealt


Order = Literal["shuffled", "blocks", "lengths", "stored"]


@dataclass(frozen=True)
class Ordered:
    """What an order may depend on besides seed, epoch and split."""

    batch_size: int
    """Examples of a global batch."""
    row_bytes: int
    """Bytes of an example."""
    lengths: Callable[[], Any]
    """Returns the length of each example, an integer array [N]."""


def unknown_lengths() -> Any:
    """Raise `Refused`: of examples without lengths."""
    raise Refused("order", "no lengths", "the order lengths needs the length of each example", "use another order")


ORDERS: dict[Order, Callable[[Ordered], EpochOrder]] = {
    "shuffled": lambda of: permutation,
    "blocks": lambda of: partial(permutation_in_blocks, block=rows_per_block(of.row_bytes)),
    "lengths": lambda of: LengthOrder(of.lengths(), of.batch_size),
    "stored": lambda of: stored,
}
"""Creates each order: versions 1, 1b and 1c, and 0, 1, 2, ... in every epoch."""
