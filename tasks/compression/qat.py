"""Quantisation-aware training (Jacob et al., arXiv 1712.05877): a model is trained with weights as a method that
quantises will round them, so that less is lost.

Weights are rounded in the forward pass to the grid of ai-edge-quantizer, symmetric with a scale for each output
channel, and the gradient passes as if there was no rounding (straight-through: Bengio et al., arXiv 1308.3432).
Activations are not rounded: the methods that quantise them when a layer is run observe their ranges then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.compression.kernels import layers_with_kernels
from tasks.compression.tables import MIN_VALUES
from tasks.config.model_methods import Qat
from tasks.errors import Failed
from tasks.models import ModelConfig

if TYPE_CHECKING:
    import keras

    from tasks.config.stored import PreparedModel
    from tasks.models.features import Arrays

VERSION = 1
TABLE_BITS = 8
"""Bits of a table of embeddings, which has one scale (`tasks.compression.tables`)."""


class Rounded(NamedTuple):
    """A variable of a layer, and its grid."""

    layer: keras.Layer
    variable: keras.Variable
    axes: tuple[int, ...]
    """Axes of the weights that share a scale."""
    bits: int


def prepare(config: Qat, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
    """Return the model whose weights are rounded, and its weights; raises `Failed` where no layer has any."""
    from tasks.config.stored import PreparedModel
    from tasks.training.starting import by_path

    if not rounded_of(config, model):
        saw, rule = "a model without dense, convolutional or embedding layers", "these are quantised"
        raise Failed("compress.methods", f"qat: {saw}", rule, "leave it out")
    return PreparedModel(task=architecture.task, model=architecture, method=config), by_path(model)


def attach(config: Qat, model: keras.Model) -> None:
    """Have the layers of a model compute with rounded weights."""
    for each in rounded_of(config, model):
        each.layer.call = with_rounded(each, each.layer.call)


def finish(config: Qat, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture whose weights are not rounded, and the rounded weights."""
    import numpy as np

    from tasks.training.starting import by_path

    values = {each.variable.path: np.asarray(rounded(each.variable, each)) for each in rounded_of(config, model)}
    return architecture.model, {**by_path(model), **values}


def with_rounded(each: Rounded, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `call` of a layer with the rounded values in place of its variable's."""
    import keras
    from keras import ops

    def call_with_rounded(*arguments: Any, **options: Any) -> Any:
        values = ops.convert_to_tensor(each.variable._value)  # float32 under any dtype policy; private
        through = values + ops.stop_gradient(rounded(values, each) - values)
        with keras.StatelessScope([(each.variable, through)]):
            return call(*arguments, **options)

    return call_with_rounded


def rounded(values: Any, each: Rounded) -> Any:
    """Return values rounded to the grid: multiples of the largest magnitude / (2^(bits - 1) - 1)."""
    from keras import ops

    levels = float(2 ** (each.bits - 1) - 1)
    values = ops.cast(values, "float32")
    scale = ops.max(ops.abs(values), axis=each.axes, keepdims=True) / levels
    scale = ops.where(ops.equal(scale, 0.0), 1.0, scale)
    return ops.round(values / scale) * scale


def rounded_of(config: Qat, model: keras.Model) -> list[Rounded]:
    """Return the variables that LiteRT's quantisation rounds, and their grids."""
    from keras import layers

    found = [
        Rounded(layer, getattr(layer, "_kernel", layer.kernel), shared_axes(layer), config.bits)
        for layer in layers_with_kernels(model)
    ]
    for layer in model._flatten_layers():
        if isinstance(layer, layers.ReversibleEmbedding) and layer.tie_weights:  # rows are the channels of the outputs
            found.append(Rounded(layer, layer._embeddings, (1,), config.bits))
        elif isinstance(layer, layers.Embedding) and layer.input_dim * layer.output_dim >= MIN_VALUES:
            found.append(Rounded(layer, layer._embeddings, (0, 1), TABLE_BITS))
    return found


def shared_axes(layer: keras.Layer) -> tuple[int, ...]:
    """Return the axes of a kernel over which an output channel sums."""
    from keras import layers

    rank = len(layer.kernel.shape)
    if isinstance(layer, layers.EinsumDense):
        _, kernel, outputs = layer.equation.replace("->", ",").split(",")
        return tuple(axis for axis, name in enumerate(kernel) if name not in outputs)
    if isinstance(layer, layers.DepthwiseConv2D):
        return tuple(range(rank - 2))
    return tuple(range(rank - 1))
