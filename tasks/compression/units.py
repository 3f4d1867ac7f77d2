"""The units of Millrace's architectures, which a smaller model of the same kind can have fewer of: hidden units,
filters and attention heads.

A kind is a function in `UNITS`: from a config to its groups of units, and to the config with other numbers of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tasks.config.models import (
    Convnet1dModel,
    ConvnetModel,
    EncoderModel,
    MlpModel,
    ResNetModel,
    TransformerModel,
    ViTModel,
)
from tasks.models.attention import head_size
from tasks.models.layers import LOGITS

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
class Architecture:
    """The units of a config."""

    groups: tuple[Group, ...]
    smaller: Callable[[list[int]], Any]
    """Returns the config with other numbers of units, one for each group; equal counts have equal numbers."""


def mlp(config: MlpModel) -> Architecture:
    """Return the hidden layers of a multi-layer perceptron."""
    names = [f"dense{index}" for index in range(len(config.units))]
    groups = [Group(*each) for each in zip(config.units, names, [*names[1:], LOGITS], strict=True)]
    return Architecture(tuple(groups), lambda counts: config.model_copy(update={"units": tuple(counts)}))


def convnet(config: ConvnetModel | Convnet1dModel) -> Architecture:
    """Return the filters of the convolutions, of which both of a block have as many, and the hidden dense layer."""
    names = [f"block{block}_conv{number}" for block in range(len(config.filters)) for number in range(2)]
    counts = [filters for filters in config.filters for _ in range(2)]
    layers = [*names, "dense"]
    groups = [Group(*each) for each in zip([*counts, config.dense], layers, [*layers[1:], LOGITS], strict=True)]

    def smaller(counts: list[int]) -> Any:
        return config.model_copy(update={"filters": tuple(counts[:-1:2]), "dense": counts[-1]})

    return Architecture(tuple(groups), smaller)


def resnet(config: ResNetModel) -> Architecture:
    """Return the channels between the two convolutions of each block, not those that are added to the block's input.

    A unit is a group that is normalised by itself: without a channel, the others of its group would have other values.
    """
    groups = []
    for stage, blocks in enumerate(config.blocks):
        channels = (config.filters << stage) // config.groups
        for name in (f"stage{stage}_block{number}" for number in range(blocks)):
            layers = f"{name}_conv0", f"{name}_conv1", (channels,), channels, f"{name}_second_norm"
            groups.append(Group(config.inner_groups or config.groups, *layers))
    return Architecture(tuple(groups), lambda counts: config.model_copy(update={"inner_groups": counts[0]}))


def blocks(config: EncoderModel | TransformerModel | ViTModel) -> Architecture:
    """Return the attention heads and the hidden units of the feed-forward layers, of which each block has as many.

    Heads that share keys and values are one unit.
    """
    kv_heads, size = getattr(config, "kv_heads", None), head_size(config)
    queries = config.heads // (kv_heads or config.heads)
    heads, hidden = [], []
    for block in range(config.layers):
        own, columns = f"block{block}_attention", (queries * size, size, size)
        qkv, out = f"{own}_qkv", f"{own}_out"
        heads.append(Group(config.heads // queries, qkv, out, columns, queries * size, part="heads"))
        if not getattr(config, "experts", 0):
            hidden.append(Group(config.hidden, f"block{block}_mlp_gate_up", f"block{block}_mlp_out"))

    def smaller(counts: list[int]) -> Any:
        of_heads = {"heads": counts[0] * queries, "head_dim": size} if counts[0] * queries != config.heads else {}
        of_groups = {} if kv_heads is None else {"kv_heads": counts[0]}
        return config.model_copy(update={**of_heads, **of_groups, **({"hidden": counts[-1]} if hidden else {})})

    return Architecture((*heads, *hidden), smaller)


UNITS: dict[str, Callable[[Any], Architecture]] = {
    "mlp": mlp,
    "convnet": convnet,
    "convnet1d": convnet,
    "encoder": blocks,
    "resnet": resnet,
    "transformer": blocks,
    "vit": blocks,
}
"""By `model.kind`."""
