"""A vision transformer (Dosovitskiy et al., arXiv 2010.11929), simplified as by Beyer et al. (arXiv 2205.01580).

Fixed sines and cosines of two axes as positions, no class token: the head reads the mean of all patches. The blocks are
those of the encoder, without rotary positions.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from tasks.config.models import ViTModel
from tasks.models.attention import as_float32, attention, feed_forward, norm
from tasks.models.features import single_image
from tasks.models.layers import dropout, head, input_layer, layer_seed, name_operations

WAVELENGTH = 10_000.0
"""The longest wavelength of the positions, in patches."""


def build(config: ViTModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

    Raises:
        Failed: the input is not an image, or patches do not divide it.
    """
    feature = single_image(config, features)
    inputs, x = input_layer(feature)
    initializer = keras.initializers.LecunNormal(layer_seed(seed, "patches"))
    side = config.patch
    x = keras.layers.Conv2D(config.width, side, strides=side, kernel_initializer=initializer, name="patches")(x)
    rows, columns = feature.shape[0] // side, feature.shape[1] // side
    x = keras.layers.Reshape((rows * columns, config.width), name="patch_list")(x)
    x = as_float32(x) + ops.array(positions(rows, columns, config.width), "float32")
    for block in range(config.layers):
        attended = attention(norm(f"block{block}_attention_norm")(x), None, None, config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_attention_dropout", seed)(attended))
        mapped = feed_forward(norm(f"block{block}_mlp_norm")(x), config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_mlp_dropout", seed)(mapped))
    x = ops.mean(as_float32(norm("final_norm")(x)), axis=1)
    return name_operations(keras.Model(inputs, head(x, features, config.task, seed), name="vit"))


def positions(rows: int, columns: int, width: int) -> np.ndarray:
    """Return the position of each patch, [1, rows x columns, width]: sines and cosines of its row and its column."""
    rates = WAVELENGTH ** (-np.arange(width // 4) / max(width // 4 - 1, 1))
    row, column = np.divmod(np.arange(rows * columns), columns)
    angles = [np.outer(place, rates) for place in (row, column)]
    return np.concatenate([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)[None]
