"""The order of examples in blocks: order version 1b, for data larger than memory (contract 8; docs/order.md).

Blocks of about a mebibyte of consecutive rows are permuted, the short last one with them; then the rows of each window
of `WINDOW` consecutive blocks of that order. A window is read block by block, and stays in the page cache while it is
used. Positions are independent and nothing is dropped, as in version 1.
"""

from __future__ import annotations

import numpy as np

from tasks.draws import Rows, permutation, position

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
