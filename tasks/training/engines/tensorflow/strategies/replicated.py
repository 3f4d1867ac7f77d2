"""A copy of the model on each device: what the strategies of tf.distribute have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.optimizers import apply_locally
from tasks.training.engines.tensorflow.step import Step, looped, packed, unpacked
from tasks.training.engines.tensorflow.strategies import Run, Sums
from tasks.training.group import Alone, Group


class Replicated:
    """Runs a copy of the model on each device, with one all-reduce of the sums of their slices."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        devices: int,
        group: Group | None = None,
        errors: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Create it for the devices of this process; a call converts errors by the context `errors`."""
        self.strategy, self.devices, self._errors = strategy, devices, errors
        self.group = group or Alone()

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the scope in which variables are created with a copy on each device."""
        return self.strategy.scope()

    def place(self, model: keras.Model) -> keras.Model:
        """Return the model: its variables were created where they belong."""
        return model

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Compile a function that runs n steps in one call, with one trace for any n."""
        apply_locally(step.optimizer)
        specs = {
            name: tf.TensorSpec((None, spec.shape[0] // self.devices, *spec.shape[1:]), spec.dtype)
            for name, spec in batches.items()
        }

        def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            return tf.distribute.get_replica_context().all_reduce("SUM", tensors)

        signature = [[specs] * self.devices, tf.TensorSpec((None,), tf.float32)]

        @tf.function(input_signature=signature, autograph=False)
        def run(slices: list[dict[str, tf.Tensor]], rates: tf.Tensor) -> tf.Tensor:
            def one_step(k: tf.Tensor) -> tf.Tensor:
                step.optimizer.learning_rate.assign(rates[k])

                def on_replica() -> tf.Tensor:
                    own = {name: values[k] for name, values in self._own(slices).items()}
                    return packed(step, step(own, reduce))

                return self.strategy.experimental_local_results(self.strategy.run(on_replica))[0]

            return looped(one_step, tf.shape(rates)[0])

        def call(arrays: Arrays, rates: np.ndarray) -> Sums:
            with self._errors():
                return unpacked(step, run(self._slices(arrays), tf.constant(rates)).numpy())

        return call

    def close(self) -> None:
        """Do nothing: TensorFlow's connections end with the process."""

    def _slices(self, arrays: Arrays) -> list[dict[str, tf.Tensor]]:
        """Return the slices [steps, batch / devices, ...] of each device, each copied once."""
        share, slices = arrays["weight"].shape[1] // self.devices, []
        for d, device in enumerate(self.strategy.extended.worker_devices):
            with tf.device(device):
                own = {name: tf.constant(values[:, d * share : (d + 1) * share]) for name, values in arrays.items()}
            slices.append(own)
        return slices

    def _own(self, slices: list[dict[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
        """Return the slice of the replica that is being traced; a TPU has one trace for all replicas."""
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        known = tf.get_static_value(number)
        if known is not None:
            return slices[int(known) % self.devices]
        return {name: tf.gather(tf.stack([own[name] for own in slices]), number) for name in slices[0]}


def device_names(devices: int) -> list[str]:
    """Return the names of GPUs where there are as many, else of logical devices, into which the CPU is split."""
    kind = "GPU"
    if len(tf.config.list_physical_devices("GPU")) < devices:
        kind, cpu = "CPU", tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    return [f"{kind}:{number}" for number in range(devices)]
