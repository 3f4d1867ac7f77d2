"""Objectives: the loss and the training metrics of a task, a module per `model.task` with `create`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import tensorflow as tf

from tasks.config.task import TASKS
from tasks.config.train import TrainConfig
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models.forward import arguments
from tasks.training.engines.tensorflow.losses import OwnLoss

OBJECTIVES = {
    "classification": "tasks.training.engines.tensorflow.objectives.classification",
    "multilabel": "tasks.training.engines.tensorflow.objectives.multilabel",
    "anomaly": "tasks.training.engines.tensorflow.objectives.anomaly",
    "ranking": "tasks.training.engines.tensorflow.objectives.ranking",
    "regression": "tasks.training.engines.tensorflow.objectives.regression",
    "language_model": "tasks.training.engines.tensorflow.objectives.language_model",
    "tagging": "tasks.training.engines.tensorflow.objectives.tagging",
}
"""The module of each task, imported on use."""

Batch = dict[str, tf.Tensor]


@dataclass(frozen=True)
class Scored:
    """Losses and metrics of a batch: float32 tensors of one shape, [batch], [batch, targets] or [batch, tokens]."""

    losses: tf.Tensor
    weights: tf.Tensor
    """Weights of the losses, class weights included; 0 for what is not scored."""
    seen: tf.Tensor
    """1 for what is scored, whatever it weighs, else 0; the weights of the metrics."""
    metrics: dict[str, tf.Tensor]
    """Metrics of each prediction by name, as `accuracy`: 1 where it is correct, else 0."""

    def sums(self) -> dict[str, tf.Tensor]:
        """Return sums over all predictions: weighted `loss`, `weight`, `seen` (scored predictions), and each metric."""
        counted = {name: tf.reduce_sum(self.seen * values) for name, values in self.metrics.items()}
        loss, weight = tf.reduce_sum(self.weights * self.losses), tf.reduce_sum(self.weights)
        return {"loss": loss, "weight": weight, "seen": tf.reduce_sum(self.seen), **counted}


@dataclass(frozen=True)
class Objective:
    """The loss of a task with its options; `__call__` scores the model's outputs for a batch."""

    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    """The names of `Scored.metrics`."""

    loss: str
    """Its name in `train.loss`; with a loss of the user's the task's default, which reports use."""
    smoothing: float = 0.0
    own: OwnLoss | None = field(default=None, kw_only=True)
    """The user's loss, instead of the task's."""

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of `Scored.sums`, in order."""
        return "loss", "weight", "seen", *self.metrics

    def plain(self) -> Self:
        """Return the objective of evaluations: without label smoothing and class weights."""
        return replace(self, smoothing=0.0)

    def losses(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the losses of outputs for targets, a float32 for each prediction."""
        return self.own(target, outputs) if self.own is not None else self.of_task(target, outputs)

    def of_task(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the losses of the task's own kind."""
        raise NotImplementedError

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return the model's inputs in their dtypes, by name if there are several."""
        return arguments(model, {tensor.name: tf.cast(batch[tensor.name], tensor.dtype) for tensor in model.inputs})

    def __call__(self, batch: Batch, outputs: tf.Tensor) -> Scored:
        """Score outputs (float32); the batch's `weight` [batch], 0 of a row that fills it up, is a factor of all
        weights of losses."""
        raise NotImplementedError


def make_objective(task: str, config: TrainConfig, snapshot: SnapshotReader) -> Objective:
    """Create the objective of a task.

    Raises:
        Conflict: an option does not apply to the task.
        Failed: the snapshot's labels or targets do not fit.
    """
    config.fit(task)
    own = None if config.own_loss is None else OwnLoss(config.own_loss, Path(config.folder or "."))
    loss = TASKS[task].losses[0] if own or config.loss is None else config.loss
    objective: Objective = import_module(OBJECTIVES[task]).create(loss, config, snapshot)
    return replace(objective, own=own)


def cross_entropy(label: tf.Tensor, logits: tf.Tensor, smoothing: float) -> tf.Tensor:
    """Return the losses of logits [..., classes] for labels [...], float32 [...]."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)
    if smoothing:
        uniform = tf.reduce_logsumexp(logits, -1) - tf.reduce_mean(logits, -1)
        losses = (1 - smoothing) * losses + smoothing * uniform
    return losses


def counted(weight: tf.Tensor) -> tf.Tensor:
    """Return 1 where a weight is above 0, else 0, float32: an example that weighs more is no further example."""
    return tf.cast(weight > 0, tf.float32)


def correct(label: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return 1 where the largest of logits [..., classes] is that of the label [...], else 0, float32 [...]."""
    return tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=label.dtype), label), tf.float32)
