"""How a global step is spread over devices: one, or a copy of the model on each of several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tasks.config import TrainConfig
from tasks.config.train import Mirrored
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import FINITE, NORM, Step

Sums = dict[str, Any]
Run = Callable[[Arrays, np.ndarray], Sums]
"""From the batches [n, batch, ...] and rates [n] of n steps to what each step returned: numpy, [n] by name."""


class Strategy(Protocol):
    """Where variables live, and how n steps are run."""

    def scope(self) -> contextlib.AbstractContextManager[Any]: ...

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run: ...


class OneDeviceStrategy:
    """All on the one device that TensorFlow prefers."""

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Nothing is spread."""
        return contextlib.nullcontext()

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """n steps in one compiled call."""
        specs = {name: tf.TensorSpec((None, *spec.shape), spec.dtype) for name, spec in batches.items()}

        # one trace for any number of steps: a resumed training cuts its calls elsewhere, and must compute alike
        @tf.function(input_signature=[specs, tf.TensorSpec((None,), tf.float32)])
        def run(arrays: dict[str, tf.Tensor], rates: tf.Tensor) -> dict[str, tf.Tensor]:
            names = (*step.objective.sums, NORM, FINITE)
            n = tf.shape(rates)[0]
            returned = [tf.TensorArray(tf.float32, n) for _ in names]
            for k in tf.range(n):
                step.optimizer.learning_rate.assign(rates[k])
                sums = step({name: values[k] for name, values in arrays.items()}, lambda tensors: tensors)
                returned = [array.write(k, sums[name]) for name, array in zip(names, returned, strict=True)]
            return {name: array.stack() for name, array in zip(names, returned, strict=True)}

        def call(arrays: Arrays, rates: np.ndarray) -> Sums:
            fed = {name: tf.constant(values) for name, values in arrays.items()}
            return {name: value.numpy() for name, value in run(fed, tf.constant(rates)).items()}

        return call


class MirroredStrategy:
    """A copy of the model on each device; the sums of their slices meet in one all-reduce.

    Keras' optimizers would reduce gradients once more by themselves: that is switched off by a private hook, which
    is tested when it is set.
    """

    def __init__(self, devices: int) -> None:
        self.replicas = devices
        accelerators = tf.config.list_logical_devices("GPU")
        kind = "GPU" if len(accelerators) >= devices else "CPU"
        self.strategy = tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(devices)])

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Variables made here have a copy on each device."""
        return self.strategy.scope()

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """One step a call: its trace must not depend on how many steps are asked for."""
        assert hasattr(step.optimizer, "_all_reduce_sum_gradients"), "this Keras reduces gradients in another way"
        step.optimizer._all_reduce_sum_gradients = lambda pairs: list(pairs)

        def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            return tf.distribute.get_replica_context().all_reduce("SUM", tensors)

        @tf.function
        def run(slices: dict[str, Any]) -> dict[str, tf.Tensor]:
            sums = self.strategy.run(lambda batch: step(batch, reduce), args=(slices,))
            return {name: self.strategy.experimental_local_results(value)[0] for name, value in sums.items()}

        def call(arrays: Arrays, rates: np.ndarray) -> Sums:
            returned: list[Sums] = []
            for k, rate in enumerate(rates):
                step.optimizer.learning_rate.assign(rate)
                batch = {name: values[k] for name, values in arrays.items()}
                returned.append({name: value.numpy() for name, value in run(self._slices(batch)).items()})
            return {name: np.array([sums[name] for sums in returned]) for name in returned[0]}

        return call

    def _slices(self, batch: Arrays) -> Any:
        share = len(batch["weight"]) // self.replicas

        def mine(context: Any) -> dict[str, tf.Tensor]:
            begin = context.replica_id_in_sync_group * share
            return {name: tf.constant(values[begin : begin + share]) for name, values in batch.items()}

        return self.strategy.experimental_distribute_values_from_function(mine)


def make_strategy(config: TrainConfig) -> Strategy:
    """The strategy of a config."""
    if isinstance(config.strategy, Mirrored):
        return MirroredStrategy(config.strategy.devices)
    return OneDeviceStrategy()


def split_cpu(devices: int) -> None:
    """Cut the CPU into logical devices; must come before TensorFlow computes anything. Without effect on GPUs."""
    if devices > 1 and not tf.config.list_physical_devices("GPU"):
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
