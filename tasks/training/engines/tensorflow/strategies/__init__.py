"""What carries out the strategies, which distribute a global step over devices (`tasks.training.strategies`).

Here is what all have in common, and a plain model on one device; the others have a file each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import Reduce, Step, looped, packed, unpacked
from tasks.training.group import Alone, ProcessGroup

Sums = dict[str, Any]
Run = Callable[[Arrays, np.ndarray], Sums]
"""From batches [n, batch, ...] and learning rates [n] of n steps to the results of each step, [n, ...] by name."""


class Placement(Protocol):
    """Places variables on devices, and compiles steps."""

    devices: int
    """Number of devices of this process, each with a replica."""

    group: ProcessGroup
    """The processes of the training."""

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which variables are created."""
        ...

    def place(self, model: keras.Model) -> keras.Model:
        """Return the model with its variables on their devices; the optimizer's are created beside them afterwards."""
        ...

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Return the compiled step, for batches of these names, shapes and dtypes."""
        ...

    def close(self) -> None:
        """Disconnect from the other processes."""


class OneDeviceStrategy:
    """Runs on TensorFlow's default device, by itself or with other processes."""

    devices = 1

    def __init__(
        self,
        group: ProcessGroup | None = None,
        reduce: Reduce = lambda tensors: tensors,
        errors: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Create it; `reduce` adds up the tensors of all processes, and a call converts errors by `errors`."""
        self.group: ProcessGroup = group or Alone()
        self._reduce, self._errors = reduce, errors

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context without effect."""
        return contextlib.nullcontext()

    def place(self, model: keras.Model) -> keras.Model:
        """Return the model: its variables were created where they belong."""
        return model

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Compile a function that runs n steps in one call."""
        specs = {name: tf.TensorSpec((None, *spec.shape), spec.dtype) for name, spec in batches.items()}

        # one trace for any number of steps: a resumed training has other calls, and must compute the same
        signature = [specs, tf.TensorSpec((None,), tf.float32)]

        @tf.function(input_signature=signature, autograph=False)
        def run(arrays: dict[str, tf.Tensor], rates: tf.Tensor) -> tf.Tensor:
            def one_step(k: tf.Tensor) -> tf.Tensor:
                step.optimizer.learning_rate.assign(rates[k])
                return packed(step, step({name: values[k] for name, values in arrays.items()}, self._reduce))

            return looped(one_step, tf.shape(rates)[0])

        def call(arrays: Arrays, rates: np.ndarray) -> Sums:
            tensors = {name: tf.constant(values) for name, values in arrays.items()}
            with self._errors():
                return unpacked(step, run(tensors, tf.constant(rates)).numpy())

        return call

    def close(self) -> None:
        """Do nothing."""
