"""The step: arithmetic in the one order that is right under every strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf

from tasks.training.engines.tensorflow.objectives import Batch, Objective

NORM, FINITE = "gradient_norm", "finite"
"""What a step returns beside the objective's sums."""

Reduce = Callable[[list[tf.Tensor]], list[tf.Tensor]]


@dataclass(frozen=True)
class Step:
    """One global step of a model: what is computed, in which order, and by what it is divided."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    objective: Objective
    clip_norm: float | None = None
    accumulate: int = 1
    jit: bool = False

    def __call__(self, batch: Batch, reduce: Reduce) -> dict[str, tf.Tensor]:
        """Forward, backward and update on this replica's slice of a global batch; returns sums over all of it."""
        sums = self.accumulated(batch)
        # one all-reduce of everything, so that all replicas decide on the same numbers from here on
        reduced = reduce(sums)
        names = self.objective.sums
        totals, gradients = dict(zip(names, reduced, strict=False)), reduced[len(names) :]
        gradients = [gradient / tf.maximum(totals["weight"], 1e-9) for gradient in gradients]
        # the norm of the whole gradient: clipped before the reduce, it would be that of a slice
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(totals["loss"])
        if self.clip_norm is not None:
            gradients = [gradient * (self.clip_norm / tf.maximum(norm, self.clip_norm)) for gradient in gradients]
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return {**totals, NORM: norm, FINITE: tf.cast(finite, tf.float32)}

    def accumulated(self, batch: Batch) -> list[tf.Tensor]:
        """The objective's sums, then the gradients, over the micro-batches, one after the other."""
        compute = tf.function(self.sums, jit_compile=True) if self.jit else self.sums
        size = batch["weight"].shape[0] // self.accumulate
        total: list[tf.Tensor] = []
        for k in range(self.accumulate):
            micro = {name: values[k * size : (k + 1) * size] for name, values in batch.items()}
            if total:  # not before the last one is done: the point is to hold one micro-batch's activations at a time
                with tf.control_dependencies(total):
                    micro = {name: tf.identity(values) for name, values in micro.items()}
            found = compute(micro)
            total = [have + new for have, new in zip(total, found, strict=True)] if total else found
        return total

    def sums(self, batch: Batch) -> list[tf.Tensor]:
        """The objective's sums by their order, then the gradient of the loss by variable, over a micro-batch.

        Float32 sums, not means: those of slices of unequal weight add up to that of the whole batch.
        """
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self.model(self.objective.inputs(self.model, batch), training=True)
            sums = self.objective(batch, tf.cast(outputs, tf.float32)).sums()
            loss = sums["loss"]
        gradients = tape.gradient(
            loss, [variable.value for variable in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # densify before anything is squared or added: an embedding's rows may come twice
        gradients = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients]
        return [*(sums[name] for name in self.objective.sums), *gradients]
