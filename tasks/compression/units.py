"""The hidden units of Millrace's architectures, which a smaller model of the same kind can have fewer of.

A kind is a function in `UNITS`: from a config to its groups of units, and to the config with other numbers of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.config import ConvnetModel, MlpModel
from tasks.config.models import Convnet1dModel, EncoderModel, TransformerModel, ViTModel
from tasks.models.layers import LOGITS

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Units of a layer, any of which can be left out: columns of one kernel, and rows of another."""

    count: int
    layer: str
    """Name of the layer whose outputs are the units. A gated one has each unit twice: all gates, then all values."""
    reader: str
    """Name of the layer that reads them, once or at several positions, one after the other."""

    def sliced(self, weights: Mapping[str, npt.NDArray[Any]], kept: Indices) -> dict[str, npt.NDArray[Any]]:
        """Return the variables of both layers by path with the kept units alone."""
        own, read = f"{self.layer}/kernel", f"{self.reader}/kernel"
        columns = self._expanded(weights[own].shape[-1], kept)
        made = {own: weights[own][..., columns]}
        if (bias := f"{self.layer}/bias") in weights:
            made[bias] = weights[bias][columns]
        return made | {read: np.take(weights[read], self._expanded(weights[read].shape[-2], kept), axis=-2)}

    def norms(self, weights: Mapping[str, npt.NDArray[Any]], order: int) -> npt.NDArray[Any]:
        """Return the norm of the weights of each unit, without its bias, float64 [count]; `order`: 1 or 2."""
        kernel = weights[f"{self.layer}/kernel"].astype(np.float64)
        columns = np.linalg.norm(kernel.reshape(-1, kernel.shape[-1]), ord=order, axis=0)
        return np.linalg.norm(columns.reshape(-1, self.count), ord=order, axis=0)

    def _expanded(self, size: int, kept: Indices) -> Indices:
        starts = np.arange(0, size, self.count)[:, None]
        return (starts + kept).ravel()


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


def feed_forward(config: EncoderModel | TransformerModel | ViTModel) -> Architecture:
    """Return the hidden units of the feed-forward layers, of which each block has as many."""
    if getattr(config, "experts", 0):
        return Architecture((), lambda counts: config)
    blocks = [f"block{block}_mlp" for block in range(config.layers)]
    groups = tuple(Group(config.hidden, f"{name}_gate_up", f"{name}_out") for name in blocks)
    return Architecture(groups, lambda counts: config.model_copy(update={"hidden": counts[0]}))


UNITS: dict[str, Callable[[Any], Architecture]] = {
    "mlp": mlp,
    "convnet": convnet,
    "convnet1d": convnet,
    "encoder": feed_forward,
    "transformer": feed_forward,
    "vit": feed_forward,
}
"""By `model.kind`."""
