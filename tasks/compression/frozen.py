"""A trained model whose outputs others learn from."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


class Frozen(keras.layers.Layer):
    """Computes the outputs of a model as in inference, also while another one is trained; no gradient passes."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name="frozen")
        self.model = model
        self.trainable = False

    def call(self, inputs: Any) -> list[Any]:
        """Return the model's outputs."""
        return [ops.stop_gradient(output) for output in keras.tree.flatten(self.model(inputs, training=False))]
