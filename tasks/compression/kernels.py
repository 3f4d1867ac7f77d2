"""The kernels of a model: the weights of layers that multiply by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras

LAYERS = ("Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D")
"""Classes of `keras.layers`."""


def layers_with_kernels(model: keras.Model) -> list[keras.Layer]:
    """Return the layers whose kernels have two axes at least, in the order of the model."""
    from keras import layers as classes

    known = tuple(getattr(classes, name) for name in LAYERS)
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, known)]
    return [layer for layer in layers if len(layer.kernel.shape) > 1]


def kernels(model: keras.Model) -> list[keras.Variable]:
    """Return the kernels with two axes at least, in the order of the model: [.., inputs, outputs]."""
    return [layer.kernel for layer in layers_with_kernels(model)]
