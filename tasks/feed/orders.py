"""The orders of a split's examples by name (docs/order.md): each a function from positions of an epoch to rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tasks.draws import permutation
from tasks.errors import Refused
from tasks.feed.block_order import permutation_in_blocks, rows_per_block
from tasks.feed.length_order import LengthOrder
from tasks.feed.order import EpochOrder, stored

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
