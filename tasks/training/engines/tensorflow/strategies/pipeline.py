"""Consecutive layers of the model on each of several devices of one process (GPipe, Huang et al., arXiv 1811.06965)."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import tensorflow as tf

from tasks.models.stages import cut
from tasks.training.engines.tensorflow.optimizers import apply_locally, update_in_place
from tasks.training.engines.tensorflow.segmented_steps import PipelinedStep, PlacedModel
from tasks.training.engines.tensorflow.step import Step
from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy, Run
from tasks.training.group import Alone, ProcessGroup


class PipelineStrategy:
    """Runs the stages of a model on a device each, several micro-batches at once."""

    devices = 1
    """There is one replica."""

    def __init__(self, names: tuple[str, ...], micro_batches: int) -> None:
        """Create it for devices by name: `("GPU:0", "GPU:1")`."""
        self.names, self.micro_batches = names, micro_batches
        self.group: ProcessGroup = Alone()

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
        return OneDeviceStrategy().prepare(self.pipelined(step), batches)

    def close(self) -> None:
        """Do nothing."""

    def pipelined(self, step: Step) -> PipelinedStep:
        """Return the step of a placed model with overlapping micro-batches."""
        apply_locally(step.optimizer)  # a sum over one replica, which would bring all gradients to one device
        update_in_place(step.optimizer)
        return PipelinedStep(**vars(step), micro_batches=self.micro_batches)


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
