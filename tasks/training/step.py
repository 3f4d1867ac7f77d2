"""The step: arithmetic in the one order that is right under every strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Reduce = Callable[[list[tf.Tensor]], list[tf.Tensor]]
Objective = Callable[[dict[str, tf.Tensor], tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""From a batch and the model's outputs to the loss and the rightness of each example, both float32 [batch]."""


def classification(batch: dict[str, tf.Tensor], logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cross-entropy straight from the logits [batch, classes]; right where the largest one is the label's."""
    label = batch["label"]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits)
    correct = tf.cast(tf.equal(tf.argmax(logits, axis=-1, output_type=label.dtype), label), tf.float32)
    return losses, correct


OBJECTIVES: dict[str, Objective] = {"classification": classification}


def replica_step(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    objective: Objective,
    clip_norm: float | None,
    reduce: Reduce,
    batch: dict[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """Forward, backward and update on this replica's slice of one global batch; returns sums over the whole batch."""
    weight = batch["weight"]
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        outputs = model(features_of(model, batch), training=True)
        losses, correct = objective(batch, tf.cast(outputs, tf.float32))
        # a sum, not a mean: slices of unequal weight then add up to the gradient of the whole batch
        loss = tf.reduce_sum(weight * losses)
    gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    # densify before anything is squared or added: an embedding's rows may come twice
    gradients = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients]
    sums = [loss, tf.reduce_sum(weight), tf.reduce_sum(weight * correct)]
    # one all-reduce of everything, so that all replicas decide on the same numbers from here on
    *gradients, loss, total, right = reduce([*gradients, *sums])
    gradients = [gradient / tf.maximum(total, 1e-9) for gradient in gradients]
    # the norm of the whole gradient: clipped before the reduce, it would be that of a slice
    norm = tf.linalg.global_norm(gradients)
    finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
    if clip_norm is not None:
        gradients = [gradient * (clip_norm / tf.maximum(norm, clip_norm)) for gradient in gradients]
    optimizer.apply(gradients, variables)
    return {"loss": loss, "weight": total, "correct": right, "norm": norm, "finite": finite}


def features_of(model: keras.Model, batch: dict[str, Any]) -> Any:
    """What of a batch the model takes, by its inputs' names."""
    names = [tensor.name for tensor in model.inputs]
    return batch[names[0]] if len(names) == 1 else {name: batch[name] for name in names}
