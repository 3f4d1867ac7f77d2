"""A training step that keeps the outputs of segments of the model, and computes their activations again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tasks.models.stages import Stage
from tasks.training.engines.tensorflow.added_losses import refuse
from tasks.training.engines.tensorflow.objectives import Batch
from tasks.training.engines.tensorflow.pipelined_step import by_variable
from tasks.training.engines.tensorflow.step import Step

State = list[tuple[keras.Variable, tf.Tensor]]
"""Variables that are not trained, with the values that a segment began with: dropout's seeds among them."""


@dataclass(frozen=True)
class RematerialisedStep(Step):
    """A step whose backward pass runs each segment forward once more, with the same seeds (Chen et al., arXiv
    1604.06174)."""

    segments: tuple[Stage, ...] = ()

    def sums(self, batch: Batch) -> list[tf.Tensor]:
        """Return the objective's sums in order, then the gradient of the loss by variable, over a micro-batch."""
        inputs = self.objective.inputs(self.model, batch)
        named = inputs if isinstance(inputs, dict) else {self.model.inputs[0].name: inputs}
        given: list[tf.Tensor | None] = [None]
        states: list[State] = []
        for segment in self.segments[:-1]:
            states.append(state_of(segment))
            given.append(segment(given[-1], named, training=True))
            refuse([loss for layer in segment.layers for loss in layer.losses], "train.remat", "true")
        last = self.segments[-1]
        variables = [variable.value for variable in last.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(given[-1])
            sums, loss, factor = self.scored(batch, last(given[-1], named, training=True))
            refuse([loss for layer in last.layers for loss in layer.losses], "train.remat", "true")
        own, upstream = tape.gradient(loss, (variables, given[-1]), unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [self.summed(own, factor)]
        for segment, before, state in reversed(list(zip(self.segments, given, states, strict=False))):
            # the activations of the segment behind are no longer needed when its gradients are computed
            with tf.control_dependencies(gradients[0]):
                upstream = tf.identity(upstream)
            own, upstream = self.backward(segment, before, named, state, upstream)
            gradients.insert(0, self.summed(own, factor))
        return [*sums, *by_variable(self.model, self.segments, gradients)]

    def backward(
        self, segment: Stage, given: tf.Tensor | None, named: dict[str, tf.Tensor], state: State, upstream: tf.Tensor
    ) -> tuple[list[Any], Any]:
        """Run a segment forward again, then backward; return the gradients of its variables and of what it was given.

        What it changes of its state, as the seeds, it has changed in the forward pass.
        """
        variables = [variable.value for variable in segment.trainable_variables]
        read = {name: named[name] for name in segment.reads}
        with keras.StatelessScope(state_mapping=state), tf.GradientTape() as tape:
            begun = self.after(upstream, read if given is None else {"": given, **read})
            if given is not None:
                tape.watch(begun[""])
            result = segment(begun.get(""), begun, training=True)
        own, below = tape.gradient(
            result,
            (variables, [] if given is None else [begun[""]]),
            output_gradients=upstream,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return own, below[0] if below else None

    def after(self, upstream: tf.Tensor, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the tensors, available when the gradient has come down to them.

        Otherwise TensorFlow would find that all is computed already, and keep it. XLA follows data alone, so that where
        it compiles, a zero is added that it does not know to be one.
        """
        with tf.control_dependencies([upstream]):
            later = {name: tf.identity(tensor) for name, tensor in tensors.items()}
        if not self.jit:
            return later
        first = tf.cast(tf.reshape(upstream, [-1])[0], tf.bool)
        zero = tf.where(first == first, 0.0, float("nan"))
        return {name: tensor + tf.cast(zero, tensor.dtype) for name, tensor in later.items()}


def state_of(segment: Stage) -> State:
    """Return the variables of a segment that are not trained, with their present values."""
    trained = {id(variable) for variable in segment.trainable_variables}
    return [(variable, tf.identity(variable.value)) for variable in segment.variables if id(variable) not in trained]
