"""The units of an architecture that a smaller model of the kind can have fewer of: hidden units, filters and heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from tasks.config.base import Conflict

Indices = npt.NDArray[np.int64]
Weights = Mapping[str, npt.NDArray[Any]]
"""The variables of a model by path."""


@dataclass(frozen=True)
class Group:
    """Units of a layer, any of which can be left out: columns of one kernel, and rows of another."""

    count: int
    layer: str
    """Name of the layer whose outputs are the units. A gated one has each unit twice: all gates, then all values."""
    reader: str
    """Name of the layer that reads them, once or at several positions, one after the other."""
    columns: tuple[int, ...] = (1,)
    """Consecutive columns of a unit in each section of the layer's outputs: those of all units follow one another."""
    rows: int = 1
    """Consecutive rows of a unit in the layer that reads it."""
    between: str | None = None
    """Name of a layer between the two with a scale and an offset for each output, which hides the norm of the first."""
    part: Literal["units", "heads"] = "units"
    """What the units are."""

    def sliced(self, weights: Weights, kept: Indices) -> dict[str, npt.NDArray[Any]]:
        """Return the variables of the layers by path with the kept units alone."""
        own, read = f"{self.layer}/kernel", f"{self.reader}/kernel"
        columns = self._positions(weights[own].shape[-1], self.columns, kept)
        made = {own: weights[own][..., columns]}
        for vector in (f"{self.layer}/bias", f"{self.between}/gamma", f"{self.between}/beta"):
            if vector in weights:
                made[vector] = weights[vector][columns]
        rows = self._positions(weights[read].shape[-2], (self.rows,), kept)
        return made | {read: np.take(weights[read], rows, axis=-2)}

    def norms(self, weights: Weights, order: int) -> npt.NDArray[Any]:
        """Return the norm of the weights of each unit, without its bias, float64 [count]; `order`: 1 or 2.

        It is that of the weights that read a head, or units after a normalisation, times the scale of the latter.
        """
        if self.part == "units" and self.between is None:
            kernel = weights[f"{self.layer}/kernel"].astype(np.float64)
            values, sections = kernel.reshape(-1, kernel.shape[-1]), self.columns
        else:
            kernel = np.moveaxis(weights[f"{self.reader}/kernel"].astype(np.float64), -2, -1)
            values, sections = kernel.reshape(-1, kernel.shape[-1]), (self.rows,)
            if self.between is not None:
                values = values * weights[f"{self.between}/gamma"]
        powers = (np.abs(values) ** order).sum(axis=0)
        own = [self._positions(len(powers), sections, np.array([unit])) for unit in range(self.count)]
        return np.array([powers[each].sum() for each in own]) ** (1 / order)

    def _positions(self, size: int, widths: tuple[int, ...], kept: Indices) -> Indices:
        """Return the positions of units along an axis; the sections repeat until its end."""
        found, start = [], 0
        while start < size:
            for width in widths:
                found.append(start + (kept[:, None] * width + np.arange(width)).ravel())
                start += self.count * width
        return np.concatenate(found)


@dataclass(frozen=True)
class Prunable:
    """The units of a model by its config."""

    groups: tuple[Group, ...]
    smaller: Callable[[list[int]], Any]
    """Returns the config with other numbers of units, one for each group; equal counts have equal numbers."""


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
