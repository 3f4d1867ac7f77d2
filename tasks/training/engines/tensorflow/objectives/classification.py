"""Classification: cross-entropy of one label of several, with label smoothing and class weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import tensorflow as tf

from tasks.config.task import UNTAGGED
from tasks.config.train import TrainConfig
from tasks.feed.augment import MIXED, OTHER_LABEL, OTHER_WEIGHT
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import Batch, Objective, Scored, correct, counted, cross_entropy


@dataclass(frozen=True)
class Classification(Objective):
    """Softmax cross-entropy; outputs [batch, classes] are logits."""

    class_weights: np.ndarray | None = None
    """float32 [classes]; None: 1 for each."""

    def plain(self) -> Self:
        """Return the objective of evaluations: without label smoothing and class weights."""
        return replace(self, smoothing=0.0, class_weights=None)

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score logits for the feature `label`.

        Of mixed examples the loss counts both labels, by their shares and the weights of their examples.
        """
        label, weight = batch["label"], batch["weight"]
        losses = self.losses(label, outputs)
        weights = weight * self._of_class(label)
        if MIXED in batch:
            other, share, of_example = batch[OTHER_LABEL], batch[MIXED], batch.get(OTHER_WEIGHT, weight)
            of_other = self.losses(other, outputs)
            own, added = (1 - share) * weights, share * of_example * self._of_class(other)
            total = own + added
            losses = tf.math.divide_no_nan(own * losses + added * of_other, total)
            weights = total
        return Scored(losses, weights, counted(weight), {"accuracy": correct(label, outputs)})

    def of_task(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the cross-entropy of logits."""
        return cross_entropy(target, outputs, self.smoothing)

    def _of_class(self, label: tf.Tensor) -> tf.Tensor:
        if self.class_weights is None:
            return tf.ones(tf.shape(label), tf.float32)
        return tf.gather(tf.constant(self.class_weights, tf.float32), label)


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Classification:
    """Create the objective (see `make_objective`)."""
    weights = None if config.class_weights is None else class_weights(config, snapshot)
    return Classification(loss, config.label_smoothing, class_weights=weights)


def class_weights(config: TrainConfig, snapshot: SnapshotReader) -> np.ndarray:
    """Return the weight of each class, float32 [classes], by class number.

    With `balanced` the classes that the train split has weigh the same; one without an example there has no weight.
    """
    classes = snapshot.features["label"]["classes"]
    config.fit_classes(classes)
    if isinstance(config.class_weights, dict):
        return np.array([config.class_weights[name] for name in classes], np.float32)
    labels = np.asarray(snapshot.arrays("train")["label"])
    counts = np.bincount(labels[labels != UNTAGGED], minlength=len(classes))
    weights = np.zeros(len(classes))
    weights[counts > 0] = counts.sum() / ((counts > 0).sum() * counts[counts > 0])
    return weights.astype(np.float32)
