"""What methods see of a Keras model, and what they add to one that is trained: its kernels, masks on them, a teacher.

Masks keep weights 0, of which more become 0 while the model is trained, by a cubic schedule (Zhu and Gupta, arXiv
1710.01878). A mask is applied after each update, as a constraint of its variable: once for a global step, in however
many micro-batches and replicas its gradient was computed. Masks and the number of the step are variables of the model
that are not trained, so that they are part of every checkpoint; in a layer that nothing calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import keras
from keras import layers as classes
from keras import ops

LAYERS = ("Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D")
"""Classes of `keras.layers`."""

UPDATES = 50
"""How often masks change, at most."""


def layers_with_kernels(model: keras.Model) -> list[keras.Layer]:
    """Return the layers whose kernels have two axes at least, in the order of the model."""
    known = tuple(getattr(classes, name) for name in LAYERS)
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, known)]
    return [layer for layer in layers if len(layer.kernel.shape) > 1]


def kernels(model: keras.Model) -> list[keras.Variable]:
    """Return the kernels with two axes at least, in the order of the model: [.., inputs, outputs]."""
    return [layer.kernel for layer in layers_with_kernels(model)]


@dataclass(frozen=True)
class MaskedTogether:
    """Kernels whose smallest weights, of all together, are masked."""

    layers: Sequence[keras.Layer]
    zeros: int
    """How many weights are masked at the end."""
    eligible: Callable[[Any], Any] | None = None
    """Returns of magnitudes, in the shape of the kernel, which may be masked; None: all."""


def add_masks(model: keras.Model, groups: Sequence[MaskedTogether], steps: int) -> None:
    """Add masks to a model, which are complete after `steps` updates."""
    state = keras.layers.Layer(name="pruning", dtype="float32")
    state.built = state.only_in_training = True
    step = variable(state, (), "zeros", "step", "int64")
    pruned = [layer for group in groups for layer in group.layers]
    masks = {
        id(layer): variable(state, layer.kernel.shape, "ones", f"mask{number:03d}")
        for number, layer in enumerate(pruned)
    }
    model.pruning = state

    def advance() -> None:
        step.assign(step + 1)
        interval = max(1, steps // UPDATES)
        now = ops.logical_or(ops.equal(step % interval, 0), ops.equal(step, steps))
        due = ops.logical_and(now, ops.less_equal(step, steps))
        left = 1.0 - ops.minimum(ops.cast(step, "float32") / steps, 1.0)
        for group in groups:
            own = [masks[id(layer)] for layer in group.layers]
            zeros = ops.cast(ops.floor((1.0 - left**3) * group.zeros), "int32")
            # Assigned outside of the condition: replicas agree on an assignment, which a condition cannot contain.
            new = ops.cond(
                due,
                lambda group=group, own=own, zeros=zeros: smallest_masked(group, own, zeros),
                lambda own=own: [ops.convert_to_tensor(mask) for mask in own],
            )
            for mask, value in zip(own, new, strict=True):
                mask.assign(value)

    trained = [layer for layer in pruned if layer.kernel.trainable]
    for layer in trained:
        layer.kernel.constraint = Constraint(
            layer.kernel.constraint, masks[id(layer)], advance if layer is trained[0] else None
        )


@dataclass(frozen=True)
class Constraint:
    """Multiplies a kernel by its mask."""

    before: Callable[[Any], Any] | None
    """The constraint that the model has itself."""
    mask: keras.Variable
    advance: Callable[[], None] | None
    """Called first, by that of the first kernel: changes all masks."""

    def __call__(self, kernel: Any) -> Any:
        """Return the values of a kernel after an update."""
        if self.advance is not None:
            self.advance()
        values = ops.convert_to_tensor(kernel)
        return (values if self.before is None else self.before(values)) * self.mask


def smallest_masked(group: MaskedTogether, masks: Sequence[keras.Variable], zeros: Any) -> list[Any]:
    """Return the masks in which the smallest weights of a group are 0, those that were first; of equal ones the first.

    Args:
        zeros: how many, of all kernels together.
    """
    scores = [ops.abs(layer.kernel * mask) for layer, mask in zip(group.layers, masks, strict=True)]
    if group.eligible is not None:
        scores = [ops.where(group.eligible(score), score, float("inf")) for score in scores]
    flat = ops.concatenate([ops.reshape(score, (-1,)) for score in scores])
    ranks = ops.argsort(ops.argsort(flat))  # stable in TensorFlow
    kept = ops.cast(ops.greater_equal(ranks, zeros), "float32")
    ends = list(accumulate(math.prod(layer.kernel.shape) for layer in group.layers))
    parts = ops.split(kept, ends[:-1]) if len(ends) > 1 else [kept]
    return [ops.reshape(part, layer.kernel.shape) for part, layer in zip(parts, group.layers, strict=True)]


def variable(
    layer: keras.Layer, shape: Sequence[int], initializer: str, name: str, dtype: str = "float32"
) -> keras.Variable:
    """Add a variable that is not trained, and that replicas assign alike, to a layer."""
    return layer.add_weight(
        shape=shape,
        initializer=initializer,
        dtype=dtype,
        trainable=False,
        autocast=False,
        aggregation="only_first_replica",
        name=name,
    )


class Frozen(keras.layers.Layer):
    """Computes the outputs of a model as in inference, also while another one is trained; no gradient passes."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name="frozen")
        self.model = model
        self.trainable = False

    def call(self, inputs: Any) -> list[Any]:
        """Return the model's outputs."""
        return [ops.stop_gradient(output) for output in keras.tree.flatten(self.model(inputs, training=False))]


FACTOR = "_factor"
"""The end of the name of the first layer."""
CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D)
SIMPLE = {"use_bias": False, "activation": "linear", "bias_regularizer": None, "bias_constraint": None}


def factored(model: keras.Model, ranks: Mapping[str, int]) -> keras.Model:
    """Return a functional model with two layers, with new weights, in place of each that `ranks` names."""
    firsts: dict[str, keras.layers.Layer] = {}

    def second(layer: Any) -> Any:
        settings = layer.get_config()
        if layer.name in ranks and isinstance(layer, CONVOLUTIONS):
            settings |= {"kernel_size": 1, "strides": 1, "dilation_rate": 1, "padding": "valid"}
        return type(layer).from_config(settings)

    def call(layer: Any, *arguments: Any, **options: Any) -> Any:
        if layer.name not in ranks:
            return layer(*arguments, **options)
        if layer.name not in firsts:
            firsts[layer.name] = first(model.get_layer(layer.name), ranks[layer.name])
        return layer(firsts[layer.name](*arguments, **options))

    return keras.models.clone_model(model, clone_function=second, call_function=call)


def first(layer: keras.layers.Layer, rank: int) -> keras.layers.Layer:
    """Return the first of the two layers."""
    size = "filters" if isinstance(layer, CONVOLUTIONS) else "units"
    settings = layer.get_config() | SIMPLE | {"name": f"{layer.name}{FACTOR}", size: rank}
    return type(layer).from_config(settings)
