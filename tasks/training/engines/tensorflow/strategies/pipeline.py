"""Consecutive layers of the model on each of several devices of one process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tasks.models.stages import cut
from tasks.training.engines.tensorflow.optimizers import apply_locally, update_in_place
from tasks.training.engines.tensorflow.segmented_steps import PipelinedStep, PlacedModel
from tasks.training.engines.tensorflow.step import Reduce, Step
from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy, Run
from tasks.training.engines.tensorflow.strategies.replicated import summed
from tasks.training.group import Alone, ProcessGroup

STAGES_KEY = 0x4D53
"""The collective group of the first stage's devices, one in each process; those of the others follow."""


class PipelineStrategy:
    """Runs the stages of a model on a device each, several micro-batches at once; alone, or in each of several
    processes."""

    devices = 1
    """A process has one replica."""

    def __init__(
        self,
        names: tuple[str, ...],
        micro_batches: int,
        schedule: str,
        group: ProcessGroup | None = None,
        errors: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Create it for devices by name: `("GPU:0", "GPU:1")`; a call converts errors by the context `errors`."""
        self.names, self.micro_batches, self.schedule = names, micro_batches, schedule
        self.group: ProcessGroup = group or Alone()
        self._errors = errors

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that creates variables in the host's memory: no device must hold the whole model."""
        return tf.device("CPU:0")

    def place(self, model: keras.Model) -> PlacedModel:
        """Cut the model into stages, and move the variables of each to its device.

        A variable of several stages is on the device of the first of them.
        """
        stages, placed = cut(model, len(self.names)), set()
        for stage, name in zip(stages, self.names, strict=True):
            for variable in stage.variables:
                if id(variable) not in placed:
                    move(variable, name)
                    placed.add(id(variable))
        return PlacedModel(model, tuple(stages), self.names)

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Compile a function that runs n steps in one call."""
        pipelined = self.pipelined(step)
        reduce = self.sums_by_stage(pipelined)
        return OneDeviceStrategy(self.group, reduce, self._errors).prepare(pipelined, batches)

    def sums_by_stage(self, step: PipelinedStep) -> Reduce:
        """Return what adds up the sums and gradients of all processes: those of a stage at once, on its device.

        A stage's are sent as soon as its last backward pass is over, while the stages before it still work.
        """
        processes = self.group.cluster.size
        if processes == 1:
            return lambda tensors: tensors
        stage_of: dict[int, int] = {}
        for number, stage in enumerate(step.model.stages):
            for variable in stage.trainable_variables:
                stage_of.setdefault(id(variable), number)  # it is placed with the first
        last = len(self.names) - 1
        stages = [last] * len(step.sum_names) + [stage_of[id(variable)] for variable in step.variables]

        def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            sums = dict(enumerate(tensors))
            for number, device in enumerate(self.names):
                own = [place for place, stage in enumerate(stages) if stage == number]
                if not own:  # a stage of frozen layers
                    continue
                with tf.device(device):
                    values = tf.concat([tf.reshape(tensors[place], [-1]) for place in own], axis=0)
                    values = summed(values, processes, STAGES_KEY + number, instance=1)
                    parts = tf.split(values, [tensors[place].shape.num_elements() for place in own])
                    for place, part in zip(own, parts, strict=True):
                        sums[place] = tf.reshape(part, tensors[place].shape)
            return [sums[place] for place in range(len(tensors))]

        return reduce

    def close(self) -> None:
        """Do nothing: TensorFlow's connections end with the process."""

    def pipelined(self, step: Step) -> PipelinedStep:
        """Return the step of a placed model with overlapping micro-batches."""
        apply_locally(step.optimizer)  # a sum over one replica, which would bring all gradients to one device
        update_in_place(step.optimizer)
        return PipelinedStep(**vars(step), micro_batches=self.micro_batches, schedule=self.schedule)


def share_threads(devices: int) -> None:
    """Let an operation of each device run at once, each with its share of the threads that the process has."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    tf.config.threading.set_intra_op_parallelism_threads(max(1, threads // devices))
    tf.config.threading.set_inter_op_parallelism_threads(devices)


def move(variable: keras.Variable, device: str) -> None:
    """Move a variable to a device; Keras continues with the new TensorFlow variable.

    A private method of Keras is called, which takes a TensorFlow variable as it is.
    """
    before = variable.value
    with tf.device(device):
        variable._initialize(tf.Variable(before, dtype=before.dtype, trainable=before.trainable, name=variable.name))
    moved = variable.value.device.endswith(device)
    assert moved or not variable.trainable, f"{variable.path} is on {variable.value.device}, not {device}"
