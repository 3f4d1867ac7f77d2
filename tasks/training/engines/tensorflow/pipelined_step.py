"""A training step whose micro-batches pass through the stages of a model, each stage on a device of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tasks.models.stages import Stage
from tasks.training.engines.tensorflow.added_losses import refuse
from tasks.training.engines.tensorflow.objectives import Batch
from tasks.training.engines.tensorflow.step import Reduce, Step


@dataclass(frozen=True)
class PlacedModel:
    """A Keras model that is called stage by stage, each on its device."""

    model: keras.Model
    stages: tuple[Stage, ...]
    devices: tuple[str, ...]

    @property
    def inputs(self) -> Any:
        """The symbolic inputs of the model."""
        return self.model.inputs

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables in Keras' order."""
        return self.model.variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The trainable variables in Keras' order."""
        return self.model.trainable_variables

    @property
    def compute_dtype(self) -> str:
        """The dtype of the model's products."""
        return str(self.model.compute_dtype)

    def by_name(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Return the model's inputs by name, from a single one or a mapping."""
        return inputs if isinstance(inputs, dict) else {self.inputs[0].name: inputs}

    def __call__(self, inputs: Any, training: bool = False) -> tf.Tensor:
        """Return the model's outputs."""
        named, outputs = self.by_name(inputs), None
        for stage, device in zip(self.stages, self.devices, strict=True):
            with tf.device(device):
                outputs = stage(outputs, named, training)
        return outputs


class Call(NamedTuple):
    """A forward pass of a micro-batch through a stage, for its backward pass."""

    tape: tf.GradientTape
    given: tf.Tensor | None
    """The output of the stage before; None for the first stage."""
    result: tf.Tensor
    """The stage's output; of the last stage the loss to differentiate."""


class Queue:
    """The order of the work on a device: what begins waits for the end of what was traced before.

    Without it all micro-batches of a stage are ready at once, and a device mixes their operations.
    """

    def __init__(self) -> None:
        self._last: list[tf.Tensor] = []

    def begin(self, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the tensors, available when the work before is done."""
        with tf.control_dependencies(self._last):
            return {name: tf.identity(tensor) for name, tensor in tensors.items()}

    def end(self, results: Sequence[tf.Tensor]) -> None:
        """Set the results of the work that has been traced."""
        self._last = list(results)


@dataclass(frozen=True)
class PipelinedStep(Step):
    """A step of a `PlacedModel`: all micro-batches forward, then all backward, as in GPipe.

    On a device the micro-batches follow each other in their order, those of dropout's seeds included; stages of
    different micro-batches run at the same time. Gradients are summed in the order of the micro-batches.
    """

    micro_batches: int = 1

    def __call__(self, batch: Batch, reduce: Reduce) -> dict[str, tf.Tensor]:
        """Run a step; what is computed of a gradient is computed on its device."""
        with tf.compat.v1.device(beside_inputs):
            return super().__call__(batch, reduce)

    def sums(self, batch: Batch) -> list[tf.Tensor]:
        """Return the objective's sums in order, then the gradient of the loss by variable, over the micro-batches."""
        size = batch["weight"].shape[0] // self.micro_batches
        queues = [Queue() for _ in self.model.stages]
        sums, passes = Total(), []
        for k in range(self.micro_batches):
            micro = {name: values[k * size : (k + 1) * size] for name, values in batch.items()}
            calls, scored, factor = self.forward_passes(micro, queues)
            passes.append((calls, factor))
            with tf.device(self.model.devices[-1]):
                sums.add(scored)
        gradients = [Total() for _ in self.model.stages]
        for calls, factor in passes:
            self.backward(calls, factor, queues, gradients)
        return [*sums.values, *by_variable(self.model, self.model.stages, [total.values for total in gradients])]

    def forward_passes(self, batch: Batch, queues: list[Queue]) -> tuple[list[Call], list[tf.Tensor], float]:
        """Run a micro-batch forward; return its passes, the objective's sums and the factor (see `Step.scored`)."""
        inputs = self.model.by_name(self.objective.inputs(self.model, batch))
        calls: list[Call] = []
        for stage, device, queue in zip(self.model.stages, self.model.devices, queues, strict=True):
            with tf.device(device), tf.GradientTape() as tape:
                named = {name: inputs[name] for name in stage.reads}
                before = {"": calls[-1].result} if calls else {}
                begun = queue.begin({**named, **before})
                given = begun.get("")
                if given is not None:
                    tape.watch(given)
                result = stage(given, begun, training=True)
                refuse([loss for layer in stage.layers for loss in layer.losses], "train.strategy.kind", "pipeline")
                if len(calls) == len(queues) - 1:
                    sums, result, factor = self.scored(batch, result)
                queue.end([result])
            calls.append(Call(tape, given, result))
        return calls, sums, factor

    def backward(self, calls: list[Call], factor: float, queues: list[Queue], gradients: list[Total]) -> None:
        """Run a micro-batch backward, and add its gradients to those of each stage."""
        upstream = tf.ones_like(calls[-1].result)
        parts = zip(self.model.stages, self.model.devices, calls, queues, gradients, strict=True)
        for stage, device, call, queue, total in reversed(list(parts)):
            with tf.device(device):
                upstream = queue.begin({"": upstream})[""]
                variables = [variable.value for variable in stage.trainable_variables]
                own, below = call.tape.gradient(
                    call.result,
                    (variables, [] if call.given is None else [call.given]),
                    output_gradients=upstream,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                total.add(self.summed(own, factor))
                queue.end([*total.values, *below])
            upstream = below[0] if below else None


def by_variable(model: Any, stages: Sequence[Stage], gradients: Sequence[list[tf.Tensor]]) -> list[tf.Tensor]:
    """Return the stages' gradients in the order of the model's variables; of several stages their sum."""
    total: dict[int, tf.Tensor] = {}
    for stage, own in zip(stages, gradients, strict=True):
        for variable, gradient in zip(stage.trainable_variables, own, strict=True):
            before = total.get(id(variable))
            total[id(variable)] = gradient if before is None else before + gradient  # where the variable is
    return [total[id(variable)] for variable in model.trainable_variables]


class Total:
    """Sums of tensors, added in turn."""

    def __init__(self) -> None:
        self.values: list[tf.Tensor] = []

    def add(self, tensors: list[tf.Tensor]) -> None:
        """Add a tensor to each sum."""
        self.values = [a + b for a, b in zip(self.values, tensors, strict=True)] if self.values else tensors


def beside_inputs(operation: tf.Operation) -> str:
    """Return the device of an operation; of one without a device, that of its first input that has one."""
    return operation.device or next((tensor.device for tensor in operation.inputs if tensor.device), "")
