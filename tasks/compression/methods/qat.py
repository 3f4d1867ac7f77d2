"""Quantisation-aware training (Jacob et al., arXiv 1712.05877): a model is trained with weights as a method that
quantises will round them, so that less is lost.

Weights are rounded in the forward pass to the grid of ai-edge-quantizer, symmetric with a scale for each output
channel, and the gradient passes as if there was no rounding (straight-through: Bengio et al., arXiv 1308.3432).
Activations are not rounded: the methods that quantise them when a layer is run observe their ranges then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from tasks.compression.methods.method import Method, Trained
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

    from tasks.compression.stored import PreparedModel
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays

TABLE_BITS = 8
"""Bits of a table of embeddings, which has one scale (`tasks.compression.litert`)."""


class Rounded(NamedTuple):
    """A variable of a layer, and its grid."""

    layer: keras.Layer
    variable: keras.Variable
    axes: tuple[int, ...]
    """Axes of the weights that share a scale."""
    bits: int


class Qat(Trained):
    """Quantisation-aware training (Jacob et al., arXiv 1712.05877): the weights are rounded in the training as a method
    that quantises rounds them. Put one behind it: `int4_dynamic` for 4 bits, `int8_dynamic` for 8. Alone it makes a
    file of float weights, smaller after gzip only."""

    version: ClassVar[int] = 1
    size_ratio: ClassVar[float] = 1.05
    undone_by_training: ClassVar[bool] = True

    kind: Literal["qat"] = "qat"
    """The method."""
    bits: Literal[4, 8] = 4
    """Bits of a weight of dense and convolutional layers, with a scale for each channel; of a table of embeddings 8."""

    @property
    def label(self) -> str:
        """The name of the method with its bits."""
        return f"{self.kind}{self.bits}"

    def undone_by(self, behind: Method) -> tuple[str, str] | None:
        """Return also why a method rounds the weights to another grid."""
        if behind.weight_bits is not None and behind.weight_bits < self.bits:
            rule = f"qat rounds weights to {self.bits} bits, and {behind.kind} to {behind.weight_bits} again"
            return rule, f"set bits to {behind.weight_bits}"
        if behind.weight_bits == self.bits and not behind.by_channel:
            rule = f"qat rounds the weights of a channel by one scale, and {behind.kind} those of a block by another"
            return rule, "leave block out"
        if behind.moves_weights:
            rule = f"qat rounds weights as a method that quantises does, and {behind.kind} gives them other values"
            return rule, f"leave {behind.kind} out"
        return super().undone_by(behind)

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
        """Return the model whose weights are rounded, and its weights; raises `Failed` where no layer has any."""
        from tasks.compression.stored import PreparedModel
        from tasks.training.initial import by_path

        if not self.rounded(model):
            saw, rule = "a model without dense, convolutional or embedding layers", "these are quantised"
            raise Failed("compress.methods", f"qat: {saw}", rule, "leave it out")
        return PreparedModel.of(architecture, self), by_path(model)

    def attach(self, model: keras.Model) -> None:
        """Have the layers of a model compute with rounded weights."""
        for each in self.rounded(model):
            each.layer.call = with_rounded(each, each.layer.call)

    def finish(self, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture whose weights are not rounded, and the rounded weights."""
        import numpy as np

        values = {each.variable.path: np.asarray(rounded(each.variable, each)) for each in self.rounded(model)}
        finished, weights = super().finish(architecture.model, model)
        return finished, {**weights, **values}

    def rounded(self, model: keras.Model) -> list[Rounded]:
        """Return the variables that LiteRT's quantisation rounds, and their grids."""
        from keras import layers

        from tasks.compression.keras_layers import layers_with_kernels
        from tasks.compression.litert import MIN_VALUES

        found = [
            Rounded(layer, getattr(layer, "_kernel", layer.kernel), shared_axes(layer), self.bits)
            for layer in layers_with_kernels(model)
        ]
        for layer in model._flatten_layers():
            if isinstance(layer, layers.ReversibleEmbedding) and layer.tie_weights:
                # rows are the channels of the outputs
                found.append(Rounded(layer, layer._embeddings, (1,), self.bits))
            elif isinstance(layer, layers.Embedding) and layer.input_dim * layer.output_dim >= MIN_VALUES:
                found.append(Rounded(layer, layer._embeddings, (0, 1), TABLE_BITS))
        return found


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
