"""Attention heads in a config: their number and size, and which of them a smaller model can be without."""

from __future__ import annotations

from typing import Any, Protocol, Self

from tasks.config.base import Conflict
from tasks.models.prunable import Group, Prunable


class Attends(Protocol):
    """The config of a model of blocks of attention and feed-forward."""

    width: int
    layers: int
    heads: int
    head_dim: int | None
    hidden: int

    def model_copy(self, *, update: Any) -> Self: ...


def head_size(config: Attends) -> int:
    """Return the size of an attention head."""
    return config.head_dim or config.width // config.heads


def check_heads(width: int, heads: int, head_dim: int | None) -> None:
    """Raise `Conflict` where a head has an odd size, or where heads without one do not divide a width into even
    parts."""
    if head_dim is not None:
        if head_dim % 2:
            raise Conflict("head_dim", head_dim, "must be even", f"use {head_dim - 1} or {head_dim + 1}")
    elif width % (2 * heads):
        below = width // (2 * heads) * 2 * heads
        nearest = f"set model.width to {f'{below} or ' if below else ''}{below + 2 * heads}"
        raise Conflict("heads", heads, f"must cut width {width} into even parts", nearest)


def prunable_blocks(config: Attends, kv_heads: int | None = None, experts: bool = False) -> Prunable:
    """Return the attention heads and the hidden units of the feed-forward layers, of which each block has as many.

    Heads that share keys and values are one unit.

    Args:
        kv_heads: heads of keys and values; None: as many as of queries.
        experts: whether experts are in place of the feed-forward layers; then all of their units stay.
    """
    size = head_size(config)
    queries = config.heads // (kv_heads or config.heads)
    heads, hidden = [], []
    for block in range(config.layers):
        own, columns = f"block{block}_attention", (queries * size, size, size)
        qkv, out = f"{own}_qkv", f"{own}_out"
        heads.append(Group(config.heads // queries, qkv, out, columns, queries * size, part="heads"))
        if not experts:
            hidden.append(Group(config.hidden, f"block{block}_mlp_gate_up", f"block{block}_mlp_out"))

    def smaller(counts: list[int]) -> Any:
        of_heads = {"heads": counts[0] * queries, "head_dim": size} if counts[0] * queries != config.heads else {}
        of_groups = {} if kv_heads is None else {"kv_heads": counts[0]}
        return config.model_copy(update={**of_heads, **of_groups, **({"hidden": counts[-1]} if hidden else {})})

    return Prunable((*heads, *hidden), smaller)
