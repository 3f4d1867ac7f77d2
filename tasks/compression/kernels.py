"""The kernels of a model: the weights of layers that multiply by them."""

from __future__ import annotations

import keras

LAYERS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.DepthwiseConv2D,
)


def kernels(model: keras.Model) -> list[keras.Variable]:
    """Return the kernels with two axes at least, in the order of the model: [.., inputs, outputs]."""
    layers = [layer for layer in model._flatten_layers() if isinstance(layer, LAYERS)]
    return [layer.kernel for layer in layers if len(layer.kernel.shape) > 1]
