"""A convolutional network over time (LeCun and Bengio, 1995), for spectrograms and series.

Blocks of two convolutions and a pooling, as in the networks for sound events of Kong et al. (arXiv 1912.10211), and the
mean and the maximum over time.
"""

from __future__ import annotations

from typing import Any

import keras

from tasks.config.models import Convnet1dModel
from tasks.errors import Failed
from tasks.models.features import single_input
from tasks.models.layers import dense, dropout, head, input_layer, layer_seed


def build(config: Convnet1dModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: a series [B, steps] or [B, steps, channels] to logits [B, classes] or outputs [B, targets].

    Raises:
        Failed: the input has no or several axes of time, or too few steps for that many blocks.
    """
    feature = single_input(features)
    if feature.sizes or len(feature.shape) not in (1, 2):
        saw = f"convnet1d on {feature.name} of shape {list(feature.shape)}"
        raise Failed("model.kind", saw, "it reads a sound or a series of numbers", "use kind: mlp")
    most = feature.shape[0].bit_length() - 1
    if len(config.filters) > most:
        rule = f"every block halves the {feature.shape[0]} steps, which have room for {most}"
        raise Failed("model.filters", list(config.filters), rule, f"give at most {most} values")
    inputs, x = input_layer(feature)
    if len(feature.shape) == 1:
        x = keras.layers.Reshape((feature.shape[0], 1), name="series")(x)
    for block, filters in enumerate(config.filters):
        for number in range(2):
            x = conv(filters, config.window, f"block{block}_conv{number}", seed)(x)
        x = keras.layers.MaxPooling1D(name=f"block{block}_pool")(x)
    pools = (keras.layers.GlobalAveragePooling1D(name="mean"), keras.layers.GlobalMaxPooling1D(name="maximum"))
    x = keras.layers.Concatenate(name="over_time")([pool(x) for pool in pools])
    x = dense(config.dense, "dense", seed)(dropout(config.dropout, "dropout", seed)(x))
    return keras.Model(inputs, head(x, features, config.task, seed), name="convnet1d")


def conv(filters: int, window: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a convolution over time with ReLU that keeps the steps, He-initialised (arXiv 1502.01852)."""
    start = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv1D(filters, window, padding="same", activation="relu", kernel_initializer=start, name=name)
