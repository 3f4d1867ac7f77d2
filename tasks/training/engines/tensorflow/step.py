"""One training step of a replica, steps in a loop of TensorFlow's graph, and their dropout seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.errors import Failed
from tasks.models.features import padded_inputs
from tasks.models.layers import PADDING
from tasks.training.engines.objectives import Batch, Objective, weighted_sum
from tasks.training.engines.several_outputs import SeveralOutputs

NORM, FINITE, SCALE, SKIPPED = "gradient_norm", "finite", "loss_scale", "skipped"
"""Names of what a step returns besides the objective's sums."""

HALF_SQUARES = "half_squares"
"""Name of half the squared norm of each variable's gradient, [variables]."""

COMPUTING, REDUCING = "computing", "reducing"
"""Names of the seconds that a replica computes its sums, and those until it has the sums of all."""

ADDED = "added_loss"
"""Name of the mean that the architecture adds to the loss of a prediction, in the curves of a training."""

COLUMNS = 16
"""Lengths of batches are multiples of it, so that XLA compiles few."""

Reduce = Callable[[list[tf.Tensor]], list[tf.Tensor]]


@dataclass(frozen=True)
class Step:
    """A global training step of a model."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    objective: Objective | SeveralOutputs
    clip_norm: float | None = None
    accumulate: int = 1
    jit: bool = False
    timed: bool = False
    """Whether the seconds before and in the all-reduce are measured."""
    with_added: keras.Model | None = None
    """The model with a second output, [batch]: what is added to the loss of each example; None where nothing is."""
    padded: tuple[str, ...] = ()
    """Inputs of tokens whose padding is not computed, where batches are of similar lengths."""
    watched: bool = False
    """Whether the norm of each variable's gradient is returned."""

    @property
    def sum_names(self) -> tuple[str, ...]:
        """The names of the sums over examples, in order."""
        return (*self.objective.sums, ADDED) if self.with_added is not None else self.objective.sums

    @property
    def returned(self) -> tuple[str, ...]:
        """The names of what a step returns, in order."""
        times = (COMPUTING, REDUCING) if self.timed else ()
        norms = (HALF_SQUARES,) if self.watched else ()
        return *self.sum_names, NORM, FINITE, SCALE, SKIPPED, *norms, *times

    @property
    def scales_loss(self) -> bool:
        """Whether the loss is scaled dynamically (Micikevicius et al., arXiv 1710.03740), as float16 needs it."""
        return isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that are trained."""
        return self.model.trainable_variables

    def forward(self, batch: Batch) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return the model's outputs in training, and what is added to the loss: for each example, or one number."""
        inputs = self.objective.inputs(self.model, batch)
        if self.with_added is None:
            return self.model(inputs, training=True), self.model.losses
        outputs, added = self.with_added(inputs, training=True)
        return outputs, [added, *self.model.losses]

    def __call__(self, batch: Batch, reduce: Reduce) -> dict[str, tf.Tensor]:
        """Run forward pass, backward pass and update on a replica's slice; return the sums over the global batch."""
        watch = Stopwatch(self.timed)
        watch.lap([])
        sums = self.accumulated(batch)
        watch.lap(sums)
        # one all-reduce of sums and gradients, so that all replicas continue with the same numbers
        reduced = reduce(sums)
        watch.lap(reduced)
        # Keras' optimizers synchronise replicas, which XLA cannot compile
        update = self.update if tf.distribute.has_strategy() else self.compiled(self.update)
        return update(reduced) | watch.seconds(COMPUTING, REDUCING)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function compiled by XLA where `jit` is set, or as it is."""
        return tf.function(function, jit_compile=True, autograph=False) if self.jit else function

    def update(self, reduced: list[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Update the variables from the global batch's sums and gradients; return `returned` by name.

        Where the loss is scaled, an update whose gradient is not finite is skipped.
        """
        names = self.sum_names
        totals, gradients = dict(zip(names, reduced, strict=False)), reduced[len(names) :]
        gradients = [tf.math.divide_no_nan(gradient, totals["weight"]) for gradient in gradients]
        scale = self.optimizer.scale_loss(tf.constant(1.0))
        # after the all-reduce: before it, the norm would be that of a slice
        half_squares = tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])
        norm = tf.sqrt(2.0 * tf.reduce_sum(half_squares)) / scale
        finite, skipped = tf.math.is_finite(totals[self.objective.minimised]), tf.constant(False)
        if self.scales_loss:
            skipped = ~tf.math.is_finite(norm)  # by the optimizer
        else:
            finite &= tf.math.is_finite(norm)
        if self.clip_norm is not None:
            gradients = [gradient * (self.clip_norm / tf.maximum(norm, self.clip_norm)) for gradient in gradients]
        self.optimizer.apply(gradients, self.variables)
        flags = {FINITE: tf.cast(finite, tf.float32), SKIPPED: tf.cast(skipped, tf.float32)}
        norms = {HALF_SQUARES: half_squares / scale**2} if self.watched else {}
        return {**totals, NORM: norm, SCALE: tf.identity(scale), **flags, **norms}

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
            # outside of what XLA compiles, which needs to know the shapes
            sums_and_gradients = compute({**micro, **{name: without_padding(micro[name]) for name in self.padded}})
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
        with tf.GradientTape() as tape:
            sums, loss, factor = self.scored(batch, *self.forward(batch))
        gradients = tape.gradient(
            loss, [variable.value for variable in self.variables], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return [*sums, *self.summed(gradients, factor)]

    def scored(
        self, batch: Batch, outputs: tf.Tensor, added: Sequence[tf.Tensor] = ()
    ) -> tuple[list[tf.Tensor], tf.Tensor, float]:
        """Return the objective's sums in order, the loss to differentiate, and the factor that its gradient lacks.

        The sums have the loss of the outputs; what is added to it is differentiated with it.
        """
        scored = self.objective(batch, tf.cast(outputs, tf.float32))
        sums = scored.sums()
        loss, factor = sums[self.objective.minimised], 1.0
        if added:
            loss += weighted_sum(added, scored.weights)
        if self.with_added is not None:
            sums[ADDED] = weighted_sum(added[:1], scored.seen)
        if self.scales_loss:  # of the mean: the sum's gradient passes the largest float16 already with a small scale
            factor = power_of_two(scored.losses)
            loss = self.optimizer.scale_loss(loss / factor)
        return [sums[name] for name in self.sum_names], loss, factor

    def summed(self, gradients: list[Any], factor: float) -> list[tf.Tensor]:
        """Return float32 gradients of the summed loss from those of the loss that was differentiated."""
        # densify before squaring or adding: an embedding's sparse gradient may have a row twice
        gradients = [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients]
        return [gradient * factor for gradient in gradients] if self.scales_loss else gradients


def refuse(losses: Sequence[tf.Tensor], field: str, value: str) -> None:
    """Raise `Failed` where a model adds losses, and a step by this setting does not compute them."""
    if losses:
        rule = f"computes no loss but that of the outputs, and the model adds {len(losses)}"
        raise Failed(field, value, rule, "leave out model.experts, add_loss and regularizers, or use another setting")


def trimmed(order: str, features: dict[str, Any]) -> tuple[str, ...]:
    """Return the inputs whose padding is not computed in an order, for `Step.padded`; `features`: a snapshot's."""
    return padded_inputs(features) if order == "lengths" else ()


def without_padding(tokens: tf.Tensor) -> tf.Tensor:
    """Return tokens [batch, length] without the columns at the end that are padding, to a multiple of `COLUMNS`."""
    ids = tf.cast(tokens, tf.int32)
    used = tf.reduce_any(ids != PADDING, axis=0)
    last = tf.reduce_max(tf.where(used, tf.range(1, tf.shape(ids)[1] + 1), 1))
    return tokens[:, : -(-last // COLUMNS) * COLUMNS]


def power_of_two(losses: tf.Tensor) -> float:
    """Return the number of losses rounded to a power of two, by which multiplication is exact."""
    return float(2 ** round(math.log2(losses.shape.num_elements())))


class Stopwatch:
    """Measures, inside a compiled function, the seconds between moments."""

    def __init__(self, running: bool) -> None:
        """Create one that measures nothing where it is not running: on an accelerator a moment waits for results."""
        self.running = running
        self._moments: list[tf.Tensor] = []

    def lap(self, tensors: list[tf.Tensor]) -> None:
        """Take the moment at which these have been computed."""
        if self.running:
            with tf.control_dependencies(tensors), tf.device("CPU:0"):
                self._moments.append(tf.timestamp())

    def seconds(self, *names: str) -> dict[str, tf.Tensor]:
        """Return the seconds between the moments, float32, by name."""
        pairs = zip(names, self._moments, self._moments[1:], strict=False)
        return {name: tf.cast(after - before, tf.float32) for name, before, after in pairs}


def looped(one_step: Callable[[tf.Tensor], tf.Tensor], n: tf.Tensor) -> tf.Tensor:
    """Run step 0 to n - 1, one after the other; return their results, [n, numbers]."""

    def body(k: tf.Tensor, results: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return k + 1, results.write(k, one_step(k))

    start = (0, tf.TensorArray(tf.float32, n))
    return tf.while_loop(lambda k, _: k < n, body, start, parallel_iterations=1)[1].stack()


def packed(step: Step, returned: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return what a step has returned as one vector, which takes fewer operations than an array for each name."""
    return tf.concat([tf.reshape(returned[name], [-1]) for name in step.returned], axis=0)


def unpacked(step: Step, results: np.ndarray) -> dict[str, np.ndarray]:
    """Return the results of n steps by name, [n] or [n, variables], from their vectors [n, numbers]."""
    shapes: Sequence[tuple[int, ...]] = [
        (len(step.variables),) if name == HALF_SQUARES else () for name in step.returned
    ]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(results, ends[:-1], axis=1)
    named = zip(step.returned, shapes, parts, strict=True)
    return {name: part.reshape(len(results), *shape) for name, shape, part in named}


SHIFT = 0x9E3779B9
"""Times the replica's number: what is added to the first word of a seed's state."""


def split_seeds(model: keras.Model, first_replica: int) -> None:
    """Give each replica dropout seeds of its own; Keras gives all the same. `first_replica` is that of this process.

    Must follow the creation of the model and every load, as a checkpoint has the first replica's state only.
    """
    for variable in model.variables:
        if variable.path.endswith("seed_generator_state"):
            replica_copies = copies(variable)
            for number, copy in enumerate(replica_copies, first_replica):
                copy.assign(copy + tf.constant([number * SHIFT % 2**32, 0], copy.dtype))
            different = len({tuple(copy.numpy()) for copy in replica_copies}) == len(replica_copies)
            assert different, f"{variable.path}: replicas share a seed"


def copies(variable: Any) -> list[Any]:
    """Return a variable's copies by replica; the variable's value alone on one device."""
    value = variable.value
    return list(getattr(value, "values", [value]))
