"""A plain model on one device: several steps in a compiled call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import Reduce, Step, looped, packed, unpacked
from tasks.training.engines.tensorflow.strategies import Run, Sums
from tasks.training.group import Alone, Group


class OneDeviceStrategy:
    """Runs on TensorFlow's default device, by itself or with other processes."""

    devices = 1

    def __init__(
        self,
        group: Group | None = None,
        reduce: Reduce = lambda tensors: tensors,
        errors: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Create it; `reduce` adds up the tensors of all processes, and a call converts errors by `errors`."""
        self.group: Group = group or Alone()
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
