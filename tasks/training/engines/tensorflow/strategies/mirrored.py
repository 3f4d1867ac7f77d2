"""A replica of the model on each of several devices of one process (tf.distribute.MirroredStrategy)."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.config.train import Mirrored
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import Step
from tasks.training.engines.tensorflow.strategies import Run, Sums


class MirroredStrategy:
    """Runs a replica of the model on each device, with one all-reduce of the sums of their slices.

    Keras' optimizers would reduce gradients a second time; a private method is replaced to prevent it.
    """

    def __init__(self, devices: int) -> None:
        self.replicas = devices
        accelerators = tf.config.list_logical_devices("GPU")
        device_type = "GPU" if len(accelerators) >= devices else "CPU"
        self.strategy = tf.distribute.MirroredStrategy([f"{device_type}:{number}" for number in range(devices)])

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the scope in which variables are created with a copy on each device."""
        return self.strategy.scope()

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Compile a function that runs one step in a call, so that its trace does not depend on the number of steps."""
        assert hasattr(step.optimizer, "_all_reduce_sum_gradients"), "this Keras reduces gradients in another way"
        step.optimizer._all_reduce_sum_gradients = lambda pairs: list(pairs)

        def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            return tf.distribute.get_replica_context().all_reduce("SUM", tensors)

        @tf.function(autograph=False)
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

        def of_replica(context: Any) -> dict[str, tf.Tensor]:
            begin = context.replica_id_in_sync_group * share
            return {name: tf.constant(values[begin : begin + share]) for name, values in batch.items()}

        return self.strategy.experimental_distribute_values_from_function(of_replica)


def create(config: Mirrored) -> MirroredStrategy:
    """Create the strategy; without accelerators the CPU is split into logical devices."""
    if not tf.config.list_physical_devices("GPU"):
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * config.devices)
    return MirroredStrategy(config.devices)
