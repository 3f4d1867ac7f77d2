"""Multilabel: binary cross-entropy of each of several labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tasks.config.train import TrainConfig
from tasks.errors import Failed
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import Batch, Objective, Scored, counted


@dataclass(frozen=True)
class Multilabel(Objective):
    """Sigmoid cross-entropy; outputs [batch, labels] are logits."""

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score logits for the feature `target`, 0 or 1."""
        target = tf.cast(batch["target"], tf.float32)
        weights = tf.broadcast_to(batch["weight"][:, None], tf.shape(outputs))
        correct = tf.cast((outputs > 0) == (target > 0.5), tf.float32)
        return Scored(self.losses(target, outputs), weights, counted(weights), {"accuracy": correct})

    def of_task(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the cross-entropy of each label."""
        smooth = target * (1 - self.smoothing) + 0.5 * self.smoothing
        return tf.nn.sigmoid_cross_entropy_with_logits(smooth, outputs)


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Multilabel:
    """Create the objective (see `make_objective`)."""
    target = np.asarray(snapshot.arrays("train")["target"])
    if (other := target[(target != 0) & (target != 1)]).size:
        rule = "the targets of this task are 0 or 1"
        raise Failed("model.task", f"a target of {other[0]:g}", rule, "use model.task: regression")
    return Multilabel(loss, config.label_smoothing)
