"""Regression: squared or absolute error of each of several numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tasks.config.train import TrainConfig
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import Batch, Objective, Scored, counted


@dataclass(frozen=True)
class Regression(Objective):
    """Errors in the targets' units; outputs are [batch, targets]."""

    metrics: ClassVar[tuple[str, ...]] = ("squared_error",)

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score outputs for the feature `target`."""
        target = tf.reshape(tf.cast(batch["target"], tf.float32), tf.shape(outputs))
        weights = tf.broadcast_to(batch["weight"][:, None], tf.shape(outputs))
        squared = {"squared_error": tf.square(outputs - target)}
        return Scored(self.losses(target, outputs), weights, counted(weights), squared)

    def of_task(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the squared or absolute error of each target."""
        return tf.square(outputs - target) if self.loss == "squared_error" else tf.abs(outputs - target)


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Regression:
    """Create the objective (see `make_objective`)."""
    return Regression(loss)
