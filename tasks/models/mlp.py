"""A multi-layer perceptron (Rumelhart, Hinton and Williams, Nature 323, 1986) over the flattened example."""

from __future__ import annotations

from typing import Any

import keras

from tasks.config import MlpModel
from tasks.models.features import model_input
from tasks.models.layers import dense, dropout, head, input_layer


def build(config: MlpModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: examples [B, ...] of any fixed shape to logits [B, classes] or outputs [B, targets]."""
    inputs, x = input_layer(model_input(features))
    x = keras.layers.Flatten(name="flatten")(x)
    for index, units in enumerate(config.units):
        x = dense(units, f"dense{index}", seed)(x)
        x = dropout(config.dropout, f"dropout{index}", seed)(x)
    return keras.Model(inputs, head(x, features, config.task, seed), name="mlp")
