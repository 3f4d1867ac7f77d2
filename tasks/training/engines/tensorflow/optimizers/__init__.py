"""Keras optimizers by `train.optimizer.kind`: a module per kind with `create`; the rate is assigned at every step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tasks.config.train import OptimizerConfig

if TYPE_CHECKING:
    import keras

OPTIMIZERS = {
    "adam": "tasks.training.engines.tensorflow.optimizers.adam",
    "adamw": "tasks.training.engines.tensorflow.optimizers.adamw",
    "sgd": "tasks.training.engines.tensorflow.optimizers.sgd",
}
"""The module of each kind, imported on use."""


def make_optimizer(config: OptimizerConfig, model: keras.Model) -> keras.optimizers.Optimizer:
    """Create the optimizer of a config, built for the model's trainable variables."""
    optimizer: keras.optimizers.Optimizer = import_module(OPTIMIZERS[config.kind]).create(config, model)
    optimizer.build(model.trainable_variables)
    return optimizer
