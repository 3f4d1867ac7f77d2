"""Keras' optimizers, told everything but the learning rate, which the plan gives at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.train import Adam, AdamW, Sgd

if TYPE_CHECKING:
    import keras


def make_optimizer(config: Adam | AdamW | Sgd, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer of a config, built for the model's trainable variables."""
    import keras

    optimizer: keras.optimizers.Optimizer
    if isinstance(config, AdamW):
        optimizer = keras.optimizers.AdamW(
            1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon, weight_decay=config.weight_decay
        )
        spared = [v for v in model.trainable_variables if len(v.shape) < 2 or v.name == "embeddings"]
        optimizer.exclude_from_weight_decay(spared)
    elif isinstance(config, Adam):
        optimizer = keras.optimizers.Adam(1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon)
    else:
        optimizer = keras.optimizers.SGD(1.0, momentum=config.momentum, nesterov=config.nesterov)
    optimizer.build(model.trainable_variables)
    return optimizer
