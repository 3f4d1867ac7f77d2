"""Keras optimizers; their learning rate is assigned at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.train import Adam, AdamW, Sgd

if TYPE_CHECKING:
    import keras


def make_optimizer(config: Adam | AdamW | Sgd, model: keras.Model) -> keras.optimizers.Optimizer:
    """Create the optimizer of a config, built for the model's trainable variables.

    Weight decay does not apply to vectors (biases, norms) and embeddings.
    """
    import keras

    optimizer: keras.optimizers.Optimizer
    if isinstance(config, AdamW):
        optimizer = keras.optimizers.AdamW(
            1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon, weight_decay=config.weight_decay
        )
        without_decay = [v for v in model.trainable_variables if len(v.shape) < 2 or v.name == "embeddings"]
        optimizer.exclude_from_weight_decay(without_decay)
    elif isinstance(config, Adam):
        optimizer = keras.optimizers.Adam(1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon)
    else:
        optimizer = keras.optimizers.SGD(1.0, momentum=config.momentum, nesterov=config.nesterov)
    optimizer.build(model.trainable_variables)
    return optimizer
