"""A small convolutional classifier, after VGG (Simonyan and Zisserman, arXiv 1409.1556): pairs of 3 x 3 filters."""

from __future__ import annotations

from typing import Any

import keras

from tasks.config.models import ConvnetModel
from tasks.models.features import single_image
from tasks.models.layers import conv, dense, dropout, head, input_layer


def build(config: ConvnetModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

    Every block halves height and width.

    Raises:
        Failed: the input is not an image, or too small for that many blocks.
    """
    feature = single_image(config, features)
    inputs, x = input_layer(feature)
    for block, filters in enumerate(config.filters):
        x = conv(filters, f"block{block}_conv0", seed)(x)
        x = conv(filters, f"block{block}_conv1", seed)(x)
        x = keras.layers.MaxPooling2D(name=f"block{block}_pool")(x)
    x = keras.layers.Flatten(name="flatten")(x)
    x = dropout(config.dropout, "dropout", seed)(x)
    x = dense(config.dense, "dense", seed)(x)
    return keras.Model(inputs, head(x, features, config.task, seed), name="convnet")
