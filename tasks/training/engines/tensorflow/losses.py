"""Losses besides the task's: what a model adds to the loss of its outputs, and a loss of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from tasks.environment.user_code import raised_at
from tasks.errors import Failed
from tasks.reader.function import imported

ADDED = "added_loss"
"""Name of the mean that the architecture adds to the loss of a prediction, in the curves of a training."""


def weighted_sum(losses: Sequence[tf.Tensor], weights: tf.Tensor) -> tf.Tensor:
    """Return the sum over examples of what is added to the loss of each, times the example's weights; float32.

    A loss is a number for each example, [batch, ...], of which the mean over the other axes is taken, or one for all,
    as a regularizer has it. The sum of losses is divided by the sum of weights over the whole batch, so that it adds up
    over micro-batches and replicas, as that of the outputs does.

    Args:
        losses: of layers, or of the architecture.
        weights: those of the predictions, [batch, ...].
    """
    of_example = tf.reduce_sum(weights, axis=list(range(1, weights.shape.rank)))
    total = tf.constant(0.0)
    for loss in losses:
        values = tf.cast(loss, tf.float32)
        if values.shape.rank:
            values = tf.reduce_mean(values, axis=list(range(1, values.shape.rank)))
        total += tf.reduce_sum(of_example * values)
    return total


def refuse(losses: Sequence[tf.Tensor], field: str, value: str) -> None:
    """Raise `Failed` where a model adds losses, and a step by this setting does not compute them."""
    if losses:
        rule = f"computes no loss but that of the outputs, and the model adds {len(losses)}"
        raise Failed(field, value, rule, "leave out model.experts, add_loss and regularizers, or use another setting")


RULE = "takes targets and outputs of some examples, and returns a float loss for each prediction"


@dataclass(frozen=True)
class OwnLoss:
    """Calls the user's function; an error in it names its file and line."""

    name: str
    folder: Path
    function: Any = field(init=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "function", imported(self.name, self.folder))
        except Exception as error:  # whatever the user's module raises
            raise self._failed(error) from None

    def __call__(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the losses, float32, of the shape of the targets."""
        try:
            losses = tf.cast(tf.convert_to_tensor(self.function(target, outputs)), tf.float32)
        except Exception as error:  # whatever the user's function raises
            raise self._failed(error) from None
        if losses.shape.as_list() != (expected := target.shape.as_list()):
            saw = f"returns shape {losses.shape.as_list()} for targets {expected} and outputs {outputs.shape.as_list()}"
            raise Failed("train.loss", f"{self.name} {saw}", RULE, "take no mean and no sum over examples or targets")
        return losses

    def _failed(self, error: Exception) -> Failed:
        where = raised_at(error, self.folder) or self.name
        said = (str(error).strip() or "no message").splitlines()[0]
        return Failed("train.loss", f"{where}: {type(error).__name__}: {said}", RULE, "correct the function")
