"""What a model adds to the loss of its outputs: a symbolic output of its own, `add_loss` of layers, regularizers."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tasks.errors import Failed

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
