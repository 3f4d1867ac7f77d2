"""Objectives: the loss and the training metrics of a task, a class each; and a loss of the user's.

They are written in `keras.ops`, for tensors of any of Keras' backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from keras import ops

from tasks.config.base import subclasses
from tasks.config.task import SCORED, UNTAGGED
from tasks.environment.user_code import raised_at
from tasks.errors import Failed
from tasks.feed.augmenter import MIXED, OTHER_LABEL, OTHER_WEIGHT
from tasks.feed.needs import ClassWeights, check_classes
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models.forward import arguments
from tasks.reader.own_modules import imported

Tensor: TypeAlias = Any
"""A tensor of Keras' backend."""
Batch = dict[str, Tensor]

OWN = "takes targets and outputs of some examples, and returns a float loss for each prediction"


@dataclass(frozen=True)
class OwnLoss:
    """Calls the user's function; an error in it names its file and line."""

    name: str
    folder: Path
    setting: str = "train.loss"
    """The setting that names it."""
    function: Any = field(init=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "function", imported(self.name, self.folder))
        except Exception as error:  # whatever the user's module raises
            raise self._failed(error) from None

    def __call__(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the losses, float32, of the shape of the targets."""
        try:
            losses = ops.cast(ops.convert_to_tensor(self.function(target, outputs)), "float32")
        except Exception as error:  # whatever the user's function raises
            raise self._failed(error) from None
        if list(losses.shape) != (expected := list(target.shape)):
            saw = f"returns shape {list(losses.shape)} for targets {expected} and outputs {list(outputs.shape)}"
            raise Failed(self.setting, f"{self.name} {saw}", OWN, "take no mean and no sum over examples or targets")
        return losses

    def _failed(self, error: Exception) -> Failed:
        where = raised_at(error, self.folder) or self.name
        said = (str(error).strip() or "no message").splitlines()[0]
        return Failed(self.setting, f"{where}: {type(error).__name__}: {said}", OWN, "correct the function")


@dataclass(frozen=True)
class Scored:
    """Losses and metrics of a batch: float32 tensors of one shape, [batch], [batch, targets] or [batch, tokens]."""

    losses: Tensor
    weights: Tensor
    """Weights of the losses, class weights included; 0 for what is not scored."""
    seen: Tensor
    """1 for what is scored, whatever it weighs, else 0; the weights of the metrics."""
    metrics: dict[str, Tensor]
    """Metrics of each prediction by name, as `accuracy`: 1 where it is correct, else 0."""

    def sums(self) -> dict[str, Tensor]:
        """Return sums over all predictions: weighted `loss`, `weight`, `seen` (scored predictions), and each metric."""
        counted = {name: ops.sum(self.seen * values) for name, values in self.metrics.items()}
        loss, weight = ops.sum(self.weights * self.losses), ops.sum(self.weights)
        return {"loss": loss, "weight": weight, "seen": ops.sum(self.seen), **counted}


@dataclass(frozen=True)
class Objective:
    """The loss of a task with its options; `__call__` scores the model's outputs for a batch."""

    task: ClassVar[str]
    """Its `model.task`."""
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    """The names of `Scored.metrics`."""
    minimised: ClassVar[str] = "loss"
    """The name of the sum that a training makes small."""

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

    @classmethod
    def create(cls, loss: str, smoothing: float, weights: ClassWeights, snapshot: SnapshotReader) -> Self:
        """Create the objective with these settings of `train` for a snapshot.

        Raises:
            Failed: its targets are not those of the task.
            Refused: there is a class without a weight.
        """
        raise NotImplementedError

    def losses(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the losses of outputs for targets, a float32 for each prediction."""
        return self.own(target, outputs) if self.own is not None else self.of_task(target, outputs)

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the losses of the task's own kind."""
        raise NotImplementedError

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return the model's inputs in their dtypes, by name if there are several."""
        return arguments(model, {tensor.name: ops.cast(batch[tensor.name], tensor.dtype) for tensor in model.inputs})

    def main(self, outputs: Tensor) -> Tensor:
        """Return the outputs of the main one of a model's outputs: all of them."""
        return outputs

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score outputs (float32); the batch's `weight` [batch], 0 of a row that fills it up, is a factor of all
        weights of losses."""
        raise NotImplementedError


def weighted_sum(losses: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the sum over examples of what is added to the loss of each, times the example's weights; float32.

    A loss is a number for each example, [batch, ...], of which the mean over the other axes is taken, or one for all,
    as a regularizer has it. The sum of losses is divided by the sum of weights over the whole batch, so that it adds up
    over micro-batches and replicas, as that of the outputs does.

    Args:
        losses: of layers, of the architecture, or of a further output.
        weights: those of the predictions, [batch, ...].
    """
    of_example = ops.sum(weights, axis=tuple(range(1, len(weights.shape))))
    total = ops.zeros((), "float32")
    for loss in losses:
        values = ops.cast(loss, "float32")
        if len(values.shape):
            values = ops.mean(values, axis=tuple(range(1, len(values.shape))))
        total += ops.sum(of_example * values)
    return total


def cross_entropy(label: Tensor, logits: Tensor, smoothing: float) -> Tensor:
    """Return the losses of logits [..., classes] for labels [...], float32 [...]."""
    losses = ops.sparse_categorical_crossentropy(label, logits, from_logits=True)
    if smoothing:
        uniform = ops.logsumexp(logits, -1) - ops.mean(logits, -1)
        losses = (1 - smoothing) * losses + smoothing * uniform
    return losses


def counted(weight: Tensor) -> Tensor:
    """Return 1 where a weight is above 0, else 0, float32: an example that weighs more is no further example."""
    return ops.cast(weight > 0, "float32")


def correct(label: Tensor, logits: Tensor) -> Tensor:
    """Return 1 where the largest of logits [..., classes] is that of the label [...], else 0, float32 [...]."""
    return ops.cast(ops.equal(ops.argmax(logits, axis=-1), label), "float32")


@dataclass(frozen=True)
class Classification(Objective):
    """Softmax cross-entropy; outputs [batch, classes] are logits."""

    task: ClassVar[str] = "classification"
    class_weights: np.ndarray | None = None
    """float32 [classes]; None: 1 for each."""

    def plain(self) -> Self:
        """Return the objective of evaluations: without label smoothing and class weights."""
        return replace(self, smoothing=0.0, class_weights=None)

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
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
            losses = ops.divide_no_nan(own * losses + added * of_other, total)
            weights = total
        return Scored(losses, weights, counted(weight), {"accuracy": correct(label, outputs)})

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the cross-entropy of logits."""
        return cross_entropy(target, outputs, self.smoothing)

    def _of_class(self, label: Tensor) -> Tensor:
        if self.class_weights is None:
            return ops.ones_like(label, dtype="float32")
        return ops.take(ops.convert_to_tensor(self.class_weights, "float32"), label)

    @classmethod
    def create(cls, loss: str, smoothing: float, weights: ClassWeights, snapshot: SnapshotReader) -> Self:
        return cls(loss, smoothing, class_weights=None if weights is None else class_weights(weights, snapshot))


def class_weights(given: ClassWeights, snapshot: SnapshotReader) -> np.ndarray:
    """Return the weight of each class, float32 [classes], by class number.

    With `balanced` the classes that the train split has weigh the same; one without an example there has no weight.
    """
    classes = snapshot.features["label"]["classes"]
    check_classes(given, classes)
    if isinstance(given, dict):
        return np.array([given[name] for name in classes], np.float32)
    labels = np.asarray(snapshot.arrays("train")["label"])
    counts = np.bincount(labels[labels != UNTAGGED], minlength=len(classes))
    weights = np.zeros(len(classes))
    weights[counts > 0] = counts.sum() / ((counts > 0).sum() * counts[counts > 0])
    return weights.astype(np.float32)


@dataclass(frozen=True)
class Tagging(Classification):
    """Softmax cross-entropy; outputs [batch, length, classes] are logits, the feature `label` is [batch, length].

    The weights are those of real tokens, so that the loss is the mean over the real tokens of a global batch.
    """

    task: ClassVar[str] = "tagging"

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score logits for the tags; outputs may be shorter where only padding was left out."""
        tags = batch["label"]
        left_out = tags.shape[1] - ops.shape(outputs)[1]
        # to the length of the tags, which is known: the scale of float16 is computed from the number of losses
        logits = ops.reshape(ops.pad(outputs, [[0, 0], [0, left_out], [0, 0]]), [*tags.shape, outputs.shape[-1]])
        weight = batch["weight"][:, None] * ops.cast(tags != UNTAGGED, "float32")
        label = ops.maximum(tags, 0)
        weights = weight * self._of_class(label)
        return Scored(self.losses(label, logits), weights, counted(weight), {"accuracy": correct(label, logits)})


@dataclass(frozen=True)
class Multilabel(Objective):
    """Sigmoid cross-entropy; outputs [batch, labels] are logits."""

    task: ClassVar[str] = "multilabel"
    single: ClassVar[str | None] = None
    """Of a task with one target, what 1 stands for."""

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score logits for the feature `target`, 0 or 1."""
        target = ops.cast(batch["target"], "float32")
        weights = ops.broadcast_to(batch["weight"][:, None], ops.shape(outputs))
        correct = ops.cast(ops.equal(outputs > 0, target > 0.5), "float32")
        return Scored(self.losses(target, outputs), weights, counted(weights), {"accuracy": correct})

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the cross-entropy of each label."""
        smooth = target * (1 - self.smoothing) + 0.5 * self.smoothing
        return ops.binary_crossentropy(smooth, outputs, from_logits=True)

    @classmethod
    def create(cls, loss: str, smoothing: float, weights: ClassWeights, snapshot: SnapshotReader) -> Self:
        target = np.asarray(snapshot.arrays("train")["target"])
        if (other := target[(target != 0) & (target != 1)]).size:
            rule = "the targets of this task are 0 or 1"
            raise Failed("model.task", f"a target of {other[0]:g}", rule, "use model.task: regression")
        size = snapshot.features["target"]["shape"][0]
        if cls.single is not None and size != 1:
            rule = f"{cls.task} has one target, 1 for {cls.single}"
            raise Failed("model.task", f"{size} targets", rule, "use multilabel")
        return cls(loss, smoothing)


@dataclass(frozen=True)
class Anomaly(Multilabel):
    """Sigmoid cross-entropy; outputs [batch, 1] are logits. Accuracy says little about what is rare: the loss decides
    in early stopping."""

    task: ClassVar[str] = "anomaly"
    single: ClassVar[str | None] = "an anomaly"


@dataclass(frozen=True)
class Ranking(Multilabel):
    """Sigmoid cross-entropy; outputs [batch, 1] are scores. The loss decides in early stopping."""

    task: ClassVar[str] = "ranking"
    single: ClassVar[str | None] = "a relevant document"


@dataclass(frozen=True)
class Regression(Objective):
    """Errors in the targets' units; outputs are [batch, targets]."""

    task: ClassVar[str] = "regression"
    metrics: ClassVar[tuple[str, ...]] = ("squared_error",)

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score outputs for the feature `target`."""
        target = ops.reshape(ops.cast(batch["target"], "float32"), ops.shape(outputs))
        weights = ops.broadcast_to(batch["weight"][:, None], ops.shape(outputs))
        squared = {"squared_error": ops.square(outputs - target)}
        return Scored(self.losses(target, outputs), weights, counted(weights), squared)

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the squared or absolute error of each target."""
        return ops.square(outputs - target) if self.loss == "squared_error" else ops.abs(outputs - target)

    @classmethod
    def create(cls, loss: str, smoothing: float, weights: ClassWeights, snapshot: SnapshotReader) -> Self:
        return cls(loss)


@dataclass(frozen=True)
class LanguageModel(Objective):
    """Softmax cross-entropy; outputs [batch, block, vocabulary] are logits, tokens are [batch, block + 1]."""

    task: ClassVar[str] = "language_model"
    bos: int = 0
    """The token that begins a document: it is given, not predicted, and not scored, unless `scored` says so."""

    def inputs(self, model: Any, batch: Batch) -> Any:
        """Return all tokens but the last, which is a target only."""
        return batch["tokens"][:, :-1]

    def __call__(self, batch: Batch, outputs: Tensor) -> Scored:
        """Score logits for the tokens that follow."""
        target = ops.cast(batch["tokens"][:, 1:], "int32")
        scored = batch[SCORED][:, 1:] > 0 if SCORED in batch else target != self.bos
        weights = batch["weight"][:, None] * ops.cast(scored, "float32")
        right = {"accuracy": correct(target, outputs)}
        return Scored(self.losses(target, outputs), weights, counted(weights), right)

    def of_task(self, target: Tensor, outputs: Tensor) -> Tensor:
        """Return the cross-entropy of logits."""
        return cross_entropy(target, outputs, self.smoothing)

    @classmethod
    def create(cls, loss: str, smoothing: float, weights: ClassWeights, snapshot: SnapshotReader) -> Self:
        return cls(loss, smoothing, bos=snapshot.features["tokens"]["bos"])


OBJECTIVES = {kind.task: kind for kind in subclasses(Objective)}
"""The objective of each task."""
