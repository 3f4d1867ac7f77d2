"""A residual network (He et al., arXiv 1512.03385) with the order of layers of its successor (arXiv 1603.05027).

Group normalisation (Wu and He, arXiv 1803.08494) in place of batch normalisation, whose moving averages and statistics
would depend on how a batch is divided.
"""

from __future__ import annotations

from typing import Any

import keras

from tasks.config.models import ResNetModel
from tasks.models.features import single_image
from tasks.models.layers import conv_plain, dropout, head, input_layer


def build(config: ResNetModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: images [B, height, width, channels] to logits [B, classes] or outputs [B, targets].

    Raises:
        Failed: the input is not an image, or too small for that many stages.
    """
    feature = single_image(config, features)
    inputs, x = input_layer(feature)
    x = conv_plain(config.filters, 3, 1, "stem", seed)(x)
    for stage, blocks in enumerate(config.blocks):
        filters = config.filters << stage
        for number in range(blocks):
            stride = 2 if stage and number == 0 else 1
            x = block(x, filters, stride, config, f"stage{stage}_block{number}", seed)
    x = activated(x, config.groups, "final")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    x = dropout(config.dropout, "dropout", seed)(x)
    return keras.Model(inputs, head(x, features, config.task, seed), name="resnet")


def block(
    x: keras.KerasTensor, filters: int, stride: int, config: ResNetModel, name: str, seed: int
) -> keras.KerasTensor:
    """Add a block of two convolutions; where the shape changes, its input is projected (1 x 1)."""
    inner = config.inner_groups or config.groups
    before = activated(x, config.groups, f"{name}_first")
    if stride > 1 or x.shape[-1] != filters:
        x = conv_plain(filters, 1, stride, f"{name}_projection", seed)(before)
    y = conv_plain(filters // config.groups * inner, 3, stride, f"{name}_conv0", seed)(before)
    y = conv_plain(filters, 3, 1, f"{name}_conv1", seed)(activated(y, inner, f"{name}_second"))
    return keras.layers.Add(name=f"{name}_add")([x, y])


def activated(x: keras.KerasTensor, groups: int, name: str) -> keras.KerasTensor:
    """Normalise groups of channels, then apply ReLU."""
    normed = keras.layers.GroupNormalization(groups, name=f"{name}_norm")(x)
    return keras.layers.Activation("relu", name=f"{name}_relu")(normed)
