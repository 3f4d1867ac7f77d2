"""Objectives by task: losses, weights and metrics of every prediction of a batch."""

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
    """Losses and metrics of a batch: float32 tensors of one shape, [batch], [batch, targets] or [batch, tokens]."""

    losses: tf.Tensor
    weights: tf.Tensor
    """Weights of the losses, class weights included; 0 for what is not scored."""
    seen: tf.Tensor
    """1 for what is scored, else 0; the weights of the metrics."""
    metrics: dict[str, tf.Tensor]
    """Metrics of each prediction by name, as `accuracy`: 1 where it is correct, else 0."""

    def sums(self) -> dict[str, tf.Tensor]:
        """Return sums over all predictions: weighted `loss`, `weight`, `seen` (scored predictions), and each metric."""
        counted = {name: tf.reduce_sum(self.seen * values) for name, values in self.metrics.items()}
        loss, weight = tf.reduce_sum(self.weights * self.losses), tf.reduce_sum(self.weights)
        return {"loss": loss, "weight": weight, "seen": tf.reduce_sum(self.seen), **counted}


METRICS = {
    "classification": ("accuracy",),
    "multilabel": ("accuracy",),
    "regression": ("squared_error",),
    "language_model": ("accuracy",),
}
"""The names of `Scored.metrics` by task."""

WATCHED = {
    "classification": ("accuracy", True),
    "multilabel": ("accuracy", True),
    "regression": ("squared_error", False),
    "language_model": ("loss", False),
}
"""By task, the metric that early stopping uses as primary metric, and whether higher is better."""


@dataclass(frozen=True)
class Objective:
    """The loss of a task with its options; `__call__` scores the model's outputs for a batch."""

    task: str
    loss: str
    smoothing: float = 0.0
    class_weights: np.ndarray | None = None
    bos: int = 0

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of `Scored.sums`, in order."""
        return "loss", "weight", "seen", *METRICS[self.task]

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return the model's inputs (by name if there are several); of tokens all but the last, a target only."""
        names = [tensor.name for tensor in model.inputs]
        values = {name: batch[name][:, :-1] if self.task == "language_model" else batch[name] for name in names}
        return values[names[0]] if len(names) == 1 else values

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score outputs (float32); the batch's `weight` [batch] is a factor of all weights."""
        if self.task == "classification":
            label = batch["label"]
            return self._classes(label, outputs, batch["weight"] * self._of_class(label), batch["weight"])
        if self.task == "language_model":
            target = tf.cast(batch["tokens"][:, 1:], tf.int32)
            scored = tf.cast(target != self.bos, tf.float32)  # a BOS is given, not predicted
            weights = batch["weight"][:, None] * scored
            return self._classes(target, outputs, weights, weights)
        target = tf.cast(batch["target"], tf.float32)
        weights = tf.broadcast_to(batch["weight"][:, None], tf.shape(outputs))
        if self.task == "multilabel":
            smooth = target * (1 - self.smoothing) + 0.5 * self.smoothing
            losses = tf.nn.sigmoid_cross_entropy_with_logits(smooth, outputs)
            correct = tf.cast((outputs > 0) == (target > 0.5), tf.float32)
            return Scored(losses, weights, weights, {"accuracy": correct})
        target = tf.reshape(target, tf.shape(outputs))
        squared = tf.square(outputs - target)
        losses = squared if self.loss == "squared_error" else tf.abs(outputs - target)
        return Scored(losses, weights, weights, {"squared_error": squared})

    def _classes(self, label: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor, seen: tf.Tensor) -> Scored:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)
        if self.smoothing:
            uniform = tf.reduce_logsumexp(logits, -1) - tf.reduce_mean(logits, -1)
            losses = (1 - self.smoothing) * losses + self.smoothing * uniform
        correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=label.dtype), label), tf.float32)
        return Scored(losses, weights, seen, {"accuracy": correct})

    def _of_class(self, label: tf.Tensor) -> tf.Tensor:
        if self.class_weights is None:
            return tf.ones(tf.shape(label), tf.float32)
        return tf.gather(tf.constant(self.class_weights, tf.float32), label)


def make_objective(task: str, config: TrainConfig, snapshot: SnapshotReader) -> Objective:
    """Create the objective of a config.

    Raises:
        Conflict: an option does not apply to the task.
        Failed: the snapshot's labels or targets do not fit.
    """
    config.fit(task)
    weights = None if config.class_weights is None else class_weights(config, snapshot)
    if task == "multilabel":
        _check_binary_targets(snapshot)
    bos = snapshot.features["tokens"]["bos"] if task == "language_model" else 0
    return Objective(task, config.loss or LOSSES[task][0], config.label_smoothing, weights, bos)


def class_weights(config: TrainConfig, snapshot: SnapshotReader) -> np.ndarray:
    """Return the weight of each class, float32 [classes], by class number.

    Raises:
        Failed: `balanced`, and a class has no example in the train split.
    """
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


def _check_binary_targets(snapshot: SnapshotReader) -> None:
    target = np.asarray(snapshot.arrays("train")["target"])
    if (other := target[(target != 0) & (target != 1)]).size:
        rule = "the targets of multilabel are 0 or 1"
        raise Failed("model.task", f"a target of {other[0]:g}", rule, "use model.task: regression")
