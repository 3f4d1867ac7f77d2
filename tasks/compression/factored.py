"""A model some of whose layers are two, with few values between them: a kernel as a product of two small ones.

A dense layer becomes one of `rank` units without bias and one with the units of the layer; a convolution becomes one
with `rank` filters and a 1 x 1 convolution (Zhang et al., arXiv 1505.06798). The second one has the layer's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

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
