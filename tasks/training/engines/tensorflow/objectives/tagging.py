"""Tagging: cross-entropy of the class of each token of a row."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tasks.config.task import UNTAGGED
from tasks.config.train import TrainConfig
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import Batch, Scored, classification, correct, counted


@dataclass(frozen=True)
class Tagging(classification.Classification):
    """Softmax cross-entropy; outputs [batch, length, classes] are logits, the feature `label` is [batch, length].

    The weights are those of real tokens, so that the loss is the mean over the real tokens of a global batch.
    """

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score logits for the tags; outputs may be shorter where only padding was left out."""
        tags = batch["label"]
        left_out = tags.shape[1] - tf.shape(outputs)[1]
        # to the length of the tags, which is known: the scale of float16 is computed from the number of losses
        logits = tf.ensure_shape(tf.pad(outputs, [[0, 0], [0, left_out], [0, 0]]), [*tags.shape, outputs.shape[-1]])
        weight = batch["weight"][:, None] * tf.cast(tags != UNTAGGED, tf.float32)
        label = tf.maximum(tags, 0)
        weights = weight * self._of_class(label)
        return Scored(self.losses(label, logits), weights, counted(weight), {"accuracy": correct(label, logits)})


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Tagging:
    """Create the objective (see `make_objective`)."""
    weights = None if config.class_weights is None else classification.class_weights(config, snapshot)
    return Tagging(loss, config.label_smoothing, class_weights=weights)
