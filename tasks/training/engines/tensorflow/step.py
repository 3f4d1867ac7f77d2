"""The training step; its order of operations is valid under every strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tasks.training.engines.tensorflow.objectives import Batch, Objective

NORM, FINITE = "gradient_norm", "finite"
"""Names of what a step returns besides the objective's sums."""

Reduce = Callable[[list[tf.Tensor]], list[tf.Tensor]]


@dataclass(frozen=True)
class Step:
    """A global training step of a model."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    objective: Objective
    clip_norm: float | None = None
    accumulate: int = 1
    jit: bool = False

    def __call__(self, batch: Batch, reduce: Reduce) -> dict[str, tf.Tensor]:
        """Run forward pass, backward pass and update on a replica's slice; return the sums over the global batch."""
        sums = self.accumulated(batch)
        # Keras' optimizers synchronise replicas, which XLA cannot compile
        update = self.update if tf.distribute.has_strategy() else self.compiled(self.update)
        # one all-reduce of sums and gradients, so that all replicas continue with the same numbers
        return update(reduce(sums))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function compiled by XLA where `jit` is set, or as it is."""
        return tf.function(function, jit_compile=True, autograph=False) if self.jit else function

    def update(self, reduced: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Update the variables from the global batch's sums and gradients; return sums, norm and `finite`."""
        names = self.objective.sums
        totals, gradients = dict(zip(names, reduced, strict=False)), reduced[len(names) :]
        gradients = [gradient / tf.maximum(totals["weight"], 1e-9) for gradient in gradients]
        # after the all-reduce: before it, the norm would be that of a slice
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(totals["loss"])
        if self.clip_norm is not None:
            gradients = [gradient * (self.clip_norm / tf.maximum(norm, self.clip_norm)) for gradient in gradients]
        self.optimizer.apply(gradients, self.model.trainable_variables)
        return {**totals, NORM: norm, FINITE: tf.cast(finite, tf.float32)}

    def accumulated(self, batch: Batch) -> list[tf.Tensor]:
        """Return the objective's sums and the gradients, accumulated over micro-batches."""
        compute = self.compiled(self.sums)
        size = batch["weight"].shape[0] // self.accumulate
        total: list[tf.Tensor] = []
        for k in range(self.accumulate):
            micro = {name: values[k * size : (k + 1) * size] for name, values in batch.items()}
            if total:  # wait for the previous one, so that the activations of one micro-batch at a time are in memory
                with tf.control_dependencies(total):
                    micro = {name: tf.identity(values) for name, values in micro.items()}
            sums_and_gradients = compute(micro)
            total = (
                [before + new for before, new in zip(total, sums_and_gradients, strict=True)]
                if total
                else sums_and_gradients
            )
        return total

    def sums(self, batch: Batch) -> list[tf.Tensor]:
        """Return the objective's sums in order, then the gradient of the loss by variable, over a micro-batch.

        These are float32 sums, not means, so that slices of unequal weight add up to the whole batch.
        """
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self.model(self.objective.inputs(self.model, batch), training=True)
            sums = self.objective(batch, tf.cast(outputs, tf.float32)).sums()
            loss = sums["loss"]
        gradients = tape.gradient(
            loss, [variable.value for variable in variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # densify before squaring or adding: an embedding's sparse gradient may have a row twice
        gradients = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients]
        return [*(sums[name] for name in self.objective.sums), *gradients]
