"""Training steps over segments of a model: pipelined over devices, or with activations computed again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tasks.models.stages import Stage
from tasks.training.engines.tensorflow.objectives import Batch
from tasks.training.engines.tensorflow.step import Reduce, Step, refuse


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
        self._stateful: list[tf.Operation] = []

    def begin(self, tensors: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the tensors, available when the work before is done."""
        with tf.control_dependencies(self._last):
            return {name: tf.identity(tensor) for name, tensor in tensors.items()}

    def end(self, results: Sequence[tf.Tensor]) -> None:
        """Set the results of the work that has been traced."""
        self._last = list(results)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run stateful operations of the block that use no resource, such as `tf.numpy_function`, in the order of this
        device alone.

        TensorFlow (2.21) runs all of a function one after the other, in the order of tracing, so that with one in each
        stage no two stages would work at once.
        """
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        yield
        for operation in graph.get_operations()[before:]:
            if operation._is_stateful and not any(tensor.dtype == tf.resource for tensor in operation.inputs):
                graph.experimental_acd_manager.run_independently(operation)
                operation._add_control_inputs(self._stateful)
                self._stateful = [operation]


Turn = tuple[int, bool, int]
"""Stage, whether it is the backward pass, and micro-batch."""


def in_order(schedule: str, stages: int, micro_batches: int) -> Iterator[Turn]:
    """Yield the passes of all micro-batches through all stages, each after those that it needs.

    Those of one stage are in the order in which its device runs them. By `gpipe` (Huang et al., arXiv 1811.06965) all
    forward passes come first. By `1f1b` (Narayanan et al., arXiv 2006.09503) forward and backward passes alternate as
    soon as the first micro-batch has come back, so that a stage keeps the activations of no more micro-batches than
    there are stages from it to the end. Both idle equally long.
    """
    left = [deque(_of_stage(schedule, stages - stage, micro_batches)) for stage in range(stages)]
    done: set[Turn] = set()
    while any(left):
        for stage, queue in enumerate(left):
            while queue:
                backward, k = queue[0]
                needed = (stage + 1, True, k) if backward else (stage - 1, False, k)
                if 0 <= needed[0] < stages and needed not in done:
                    break
                queue.popleft()
                done.add((stage, backward, k))
                yield stage, backward, k


def _of_stage(schedule: str, to_the_end: int, micro_batches: int) -> list[tuple[bool, int]]:
    """Return the passes of a stage in order; `to_the_end` counts the stages from it to the last one."""
    ahead = micro_batches if schedule == "gpipe" else min(to_the_end - 1, micro_batches)
    order = [(False, k) for k in range(ahead)]
    for k in range(ahead, micro_batches):
        order += [(False, k), (True, k - ahead)]
    return order + [(True, k) for k in range(micro_batches - ahead, micro_batches)]


@dataclass(frozen=True)
class PipelinedStep(Step):
    """A step of a `PlacedModel` over micro-batches, in the order of `in_order`.

    On a device the micro-batches follow each other in their order, those of dropout's seeds included; stages of
    different micro-batches run at the same time. Gradients are summed in the order of the micro-batches, so that all
    schedules compute the same numbers.
    """

    micro_batches: int = 1
    schedule: str = "1f1b"

    def __call__(self, batch: Batch, reduce: Reduce) -> dict[str, tf.Tensor]:
        """Run a step; what is computed of a gradient is computed on its device."""
        with tf.compat.v1.device(beside_inputs):
            return super().__call__(batch, reduce)

    def sums(self, batch: Batch) -> list[tf.Tensor]:
        """Return the objective's sums in order, then the gradient of the loss by variable, over the micro-batches."""
        size, stages = batch["weight"].shape[0] // self.micro_batches, len(self.model.stages)
        queues = [Queue() for _ in range(stages)]
        passes: list[Pass] = []
        for k in range(self.micro_batches):
            micro = {name: values[k * size : (k + 1) * size] for name, values in batch.items()}
            passes.append(Pass(micro, self.model.by_name(self.objective.inputs(self.model, micro))))
        sums, gradients = Total(), [Total() for _ in range(stages)]
        for stage, backward, k in in_order(self.schedule, stages, self.micro_batches):
            with tf.device(self.model.devices[stage]), queues[stage].apart():
                if backward:
                    self.backward(stage, passes[k], queues[stage], gradients[stage])
                else:
                    self.forward_pass(stage, passes[k], queues[stage], sums)
        return [*sums.values, *by_variable(self.model, self.model.stages, [total.values for total in gradients])]

    def forward_pass(self, number: int, micro: Pass, queue: Queue, sums: Total) -> None:
        """Run a micro-batch forward through a stage; the last one adds to the objective's sums."""
        stage = self.model.stages[number]
        with tf.GradientTape() as tape:
            named = {name: micro.inputs[name] for name in stage.reads}
            before = {"": micro.calls[-1].result} if micro.calls else {}
            begun = queue.begin({**named, **before})
            given = begun.get("")
            if given is not None:
                tape.watch(given)
            result = stage(given, begun, training=True)
            refuse([loss for layer in stage.layers for loss in layer.losses], "train.strategy.kind", "pipeline")
            if stage is self.model.stages[-1]:
                scored, result, micro.factor = self.scored(micro.batch, result)
                micro.upstream = tf.ones_like(result)
        if stage is self.model.stages[-1]:
            sums.add(scored)
        queue.end([result])
        micro.calls.append(Call(tape, given, result))

    def backward(self, number: int, micro: Pass, queue: Queue, total: Total) -> None:
        """Run a micro-batch backward through a stage, and add its gradients to the stage's."""
        call = micro.calls.pop()  # of the last stage whose backward pass is left
        upstream = queue.begin({"": micro.upstream})[""]
        variables = [variable.value for variable in self.model.stages[number].trainable_variables]
        own, below = call.tape.gradient(
            call.result,
            (variables, [] if call.given is None else [call.given]),
            output_gradients=upstream,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        total.add(self.summed(own, micro.factor))
        micro.upstream = below[0] if below else None
        queue.end([*total.values, *below])


@dataclass
class Pass:
    """A micro-batch on its way through the stages."""

    batch: Batch
    inputs: dict[str, tf.Tensor]
    """The model's inputs by name."""
    calls: list[Call] = field(default_factory=list)
    """Its forward passes whose backward passes are left, by stage."""
    factor: float = 1.0
    """What the gradient of the loss lacks (see `Step.scored`)."""
    upstream: tf.Tensor | None = None
    """The gradient that the next backward pass is given."""


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
