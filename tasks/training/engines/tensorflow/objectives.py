"""What is minimised, by task: losses, weights and metrics of every answer of a batch that is scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.config import TrainConfig
from tasks.config.train import LOSSES
from tasks.data.pipeline import SnapshotReader
from tasks.errors import Failed

Batch = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Scored:
    """Float32 tensors of one shape, [batch] or [batch, targets]."""

    losses: tf.Tensor
    weights: tf.Tensor
    """Of the losses: class weights are in them, and 0 for what is not scored."""
    seen: tf.Tensor
    """1 for what is scored, else 0."""
    metrics: dict[str, tf.Tensor]
    """What else is known of each answer, by the name of its mean: `accuracy` is 1 where it was right."""

    def sums(self) -> dict[str, tf.Tensor]:
        """Over all answers: the weighted loss, the weights, how many were scored, and each metric of those."""
        counted = {name: tf.reduce_sum(self.seen * values) for name, values in self.metrics.items()}
        loss, weight = tf.reduce_sum(self.weights * self.losses), tf.reduce_sum(self.weights)
        return {"loss": loss, "weight": weight, "seen": tf.reduce_sum(self.seen), **counted}


METRICS = {
    "classification": ("accuracy",),
    "multilabel": ("accuracy",),
    "regression": ("squared_error",),
    "language_model": ("accuracy",),
}
"""By task, what `Objective` puts into `Scored.metrics`."""

WATCHED = {
    "classification": ("accuracy", True),
    "multilabel": ("accuracy", True),
    "regression": ("squared_error", False),
    "language_model": ("loss", False),
}
"""By task, the mean that stands for the primary metric while training, and whether higher is better."""


@dataclass(frozen=True)
class Objective:
    """A task's loss with its options; `__call__` scores a batch, `inputs` is what of it the model reads."""

    task: str
    loss: str
    smoothing: float = 0.0
    class_weights: np.ndarray | None = None
    bos: int = 0

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of `Scored.sums`, in their order."""
        return "loss", "weight", "seen", *METRICS[self.task]

    def inputs(self, model: Any, batch: Batch) -> Any:
        """The model's inputs by their names; a language model does not see the last token, which it only predicts."""
        names = [tensor.name for tensor in model.inputs]
        values = {name: batch[name][:, :-1] if self.task == "language_model" else batch[name] for name in names}
        return values[names[0]] if len(names) == 1 else values

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score outputs (float32) against the batch; the batch's own `weight` [batch] is part of the weights."""
        if self.task == "classification":
            label = batch["label"]
            return self._classes(label, outputs, batch["weight"] * self._of_class(label), batch["weight"])
        if self.task == "language_model":
            target = tf.cast(batch["tokens"][:, 1:], tf.int32)
            scored = tf.cast(target != self.bos, tf.float32)  # a document's beginning is given, not predicted
            weights = batch["weight"][:, None] * scored
            return self._classes(target, outputs, weights, weights)
        target = tf.cast(batch["target"], tf.float32)
        weights = tf.broadcast_to(batch["weight"][:, None], tf.shape(outputs))
        if self.task == "multilabel":
            smooth = target * (1 - self.smoothing) + 0.5 * self.smoothing
            losses = tf.nn.sigmoid_cross_entropy_with_logits(smooth, outputs)
            right = tf.cast((outputs > 0) == (target > 0.5), tf.float32)
            return Scored(losses, weights, weights, {"accuracy": right})
        target = tf.reshape(target, tf.shape(outputs))
        squared = tf.square(outputs - target)
        losses = squared if self.loss == "squared_error" else tf.abs(outputs - target)
        return Scored(losses, weights, weights, {"squared_error": squared})

    def _classes(self, label: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor, seen: tf.Tensor) -> Scored:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)
        if self.smoothing:
            even = tf.reduce_logsumexp(logits, -1) - tf.reduce_mean(logits, -1)
            losses = (1 - self.smoothing) * losses + self.smoothing * even
        right = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=label.dtype), label), tf.float32)
        return Scored(losses, weights, seen, {"accuracy": right})

    def _of_class(self, label: tf.Tensor) -> tf.Tensor:
        if self.class_weights is None:
            return tf.ones(tf.shape(label), tf.float32)
        return tf.gather(tf.constant(self.class_weights, tf.float32), label)


def make_objective(task: str, config: TrainConfig, snapshot: SnapshotReader) -> Objective:
    """The objective of a config over a snapshot; `Conflict` for options that the task would ignore."""
    config.fit(task)
    weights = None if config.class_weights is None else class_weights(config, snapshot)
    if task == "multilabel":
        _must_be_flags(snapshot)
    bos = snapshot.features["tokens"]["bos"] if task == "language_model" else 0
    return Objective(task, config.loss or LOSSES[task][0], config.label_smoothing, weights, bos)


def class_weights(config: TrainConfig, snapshot: SnapshotReader) -> np.ndarray:
    """Weight of each class, float32 [classes], by class id."""
    classes = snapshot.features["label"]["classes"]
    config.fit_classes(classes)
    if isinstance(config.class_weights, dict):
        return np.array([config.class_weights[name] for name in classes], np.float32)
    counts = np.bincount(np.asarray(snapshot.arrays("train")["label"]), minlength=len(classes))
    if not counts.all():
        empty = classes[int(np.flatnonzero(counts == 0)[0])]
        rule = f"class {empty} has no example in the train split"
        raise Failed("train.class_weights", "balanced", rule, "give the weights as a mapping")
    return (counts.sum() / (len(classes) * counts)).astype(np.float32)


def _must_be_flags(snapshot: SnapshotReader) -> None:
    target = np.asarray(snapshot.arrays("train")["target"])
    if (other := target[(target != 0) & (target != 1)]).size:
        rule = "the targets of multilabel are 0 or 1"
        raise Failed("model.task", f"a target of {other[0]:g}", rule, "use model.task: regression")
