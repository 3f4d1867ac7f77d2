"""Pruning: the smallest weights become 0, so that the file is smaller after gzip.

By magnitude over the model or in each layer (Han et al., arXiv 1506.02626), or two of each four along a layer's inputs
(2:4; Mishra et al., arXiv 2104.08378). At once, or little by little in a training (Zhu and Gupta, arXiv 1710.01878).
The file has the same size and speed: LiteRT multiplies by zeros, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.compression.kernels import kernels, layers_with_kernels
from tasks.config.model_methods import Prune
from tasks.errors import Failed
from tasks.models import ModelConfig

if TYPE_CHECKING:
    import keras

    from tasks.compression import masks
    from tasks.config.stored import PreparedModel
    from tasks.models.features import Arrays

VERSION = 2
GROUP, ZEROS = 4, 2
"""Of so many weights so many become 0."""

Weights = npt.NDArray[np.float32]


def change(config: Prune, model: keras.Model) -> None:
    """Set weights of a model to 0.

    Raises:
        Failed: no layer has inputs in groups of four.
    """
    variables = kernels(model)
    values = {variable.path: np.asarray(variable) for variable in variables}
    if config.pattern == "2:4":
        pruned = {path: two_of_four(each) for path, each in values.items() if each.shape[-2] % GROUP == 0}
        if not pruned:
            raise no_fours({path: each.shape for path, each in values.items()})
    elif config.scope == "layer":
        pruned = {path: without_smallest([each], config.share)[0] for path, each in values.items()}
    else:
        pruned = dict(zip(values, without_smallest(list(values.values()), config.share), strict=True))
    for variable in variables:
        if variable.path in pruned:
            variable.assign(pruned[variable.path])


def prepare(config: Prune, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
    """Return the model with masks, all of them 1, and its weights."""
    from tasks.config.stored import PreparedModel
    from tasks.training.starting import by_path

    groups_of(config, model)  # raises what does not fit
    return PreparedModel(task=architecture.task, model=architecture, method=config), by_path(model)


def attach(config: Prune, model: keras.Model) -> None:
    """Add masks to a model, whose zeros become more at each of the first steps of the training."""
    from tasks.compression import masks

    assert config.fine_tune is not None
    masks.attach(model, groups_of(config, model), max(1, round(config.ramp * config.fine_tune.steps)))


def finish(config: Prune, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture without masks, and the weights: as many are 0 as the method says.

    These are 0 already, unless the weights are an average over steps (`train.ema`).
    """
    from tasks.training.starting import by_path

    change(config, model)
    return architecture.model, by_path(model)


def groups_of(config: Prune, model: keras.Model) -> list[masks.Group]:
    """Return the kernels that are pruned together; raises `Failed` where none has inputs in groups of four."""
    from tasks.compression.masks import Group

    layers = layers_with_kernels(model)
    if config.pattern == "2:4":
        divisible = [layer for layer in layers if layer.kernel.shape[-2] % GROUP == 0]
        if not divisible:
            raise no_fours({layer.kernel.path: layer.kernel.shape for layer in layers})
        return [Group([layer], size_of(layer) * ZEROS // GROUP, smaller_two_of_four) for layer in divisible]
    if config.scope == "layer":
        return [Group([layer], int(config.share * size_of(layer))) for layer in layers]
    return [Group(layers, int(config.share * sum(map(size_of, layers))))]


def smaller_two_of_four(magnitudes: Any) -> Any:
    """Return which of the magnitudes [.., inputs, outputs] are the two smallest of each four inputs of an output."""
    from keras import ops

    groups = ops.moveaxis(magnitudes, -2, -1)
    shape = groups.shape
    ranks = ops.argsort(ops.argsort(ops.reshape(groups, (-1, GROUP))))
    return ops.moveaxis(ops.reshape(ops.less(ranks, ZEROS), shape), -1, -2)


def size_of(layer: keras.Layer) -> int:
    """Return the number of weights of a layer's kernel."""
    return math.prod(layer.kernel.shape)


def no_fours(shapes: Mapping[str, Sequence[int]]) -> Failed:
    """Return the error of a model without inputs in groups of four."""
    saw = ", ".join(f"{path} {list(shape)}" for path, shape in shapes.items()) or "no layer with weights"
    rule = "a layer is pruned 2:4 where its inputs divide by 4"
    return Failed("compress.methods", f"prune 2:4: {saw}", rule, "use pattern: any")


def without_smallest(kernels: list[Weights], share: float) -> list[Weights]:
    """Return kernels of which this share of all weights, the smallest in magnitude, is 0; of equal ones the first."""
    flat = np.concatenate([kernel.ravel() for kernel in kernels])
    smallest = np.argsort(np.abs(flat), kind="stable")[: int(share * flat.size)]
    flat[smallest] = 0
    ends = np.cumsum([kernel.size for kernel in kernels])[:-1]
    return [part.reshape(kernel.shape) for part, kernel in zip(np.split(flat, ends), kernels, strict=True)]


def two_of_four(kernel: Weights) -> Weights:
    """Return a kernel [.., inputs, outputs] in which the two smallest of each four inputs of an output are 0."""
    groups = np.moveaxis(kernel, -2, -1)
    shape = groups.shape
    groups = groups.reshape(-1, GROUP).copy()
    smallest = np.argsort(np.abs(groups), axis=-1, kind="stable")[:, :ZEROS]
    np.put_along_axis(groups, smallest, 0, axis=-1)
    return np.moveaxis(groups.reshape(shape), -1, -2)
