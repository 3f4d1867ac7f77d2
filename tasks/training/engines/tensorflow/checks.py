"""Layers whose arithmetic depends on how a batch is divided, which a layout must not change."""

from __future__ import annotations

import keras

from tasks.config.train import TrainConfig
from tasks.errors import Failed


def check_layers(model: keras.Model, config: TrainConfig) -> None:
    """Check that no layer computes with the statistics of a part of the batch.

    A plain BatchNormalization does, in each replica and in each micro-batch, so that its moving averages differ between
    replicas and from those of one device. `synchronized` ones add up the statistics of all replicas.

    Raises:
        Failed: there is such a layer, and the batch is divided.
    """
    for layer in of_batch(model):
        saw = f"BatchNormalization {layer.name}"
        if (parts := config.accumulate * config.strategy.micro_batches_of_each) > 1:
            rule = f"its statistics would be those of one of {parts} micro-batches"
            remedy = "set train.accumulate and micro_batches to 1, or use a norm of each example (GroupNormalization)"
            raise Failed("train.accumulate", saw, rule, remedy)
        if not config.strategy.exact:
            rule = f"{config.strategy.kind} has no batch whose statistics all workers share"
            raise Failed("train.strategy", saw, rule, "use a norm of each example (GroupNormalization)")
        if config.strategy.replicas > 1 and not layer.synchronized:
            rule = f"its statistics would be those of one of {config.strategy.replicas} replicas"
            raise Failed("train.strategy", saw, rule, "create it with synchronized=True, or use one_device")


def of_batch(model: keras.Model) -> list[keras.layers.BatchNormalization]:
    """Return the layers that compute with statistics of the batch."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
