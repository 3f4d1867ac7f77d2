"""The strategies of tf.distribute: a copy of the model on each device, and what several processes exchange."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tasks.errors import Lost
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.optimizers import apply_locally
from tasks.training.engines.tensorflow.step import Step, looped, packed, unpacked
from tasks.training.engines.tensorflow.strategies import Run, Sums
from tasks.training.group import Alone, Cluster, ProcessGroup, signed


class Replicated:
    """Runs a copy of the model on each device, with one all-reduce of the sums of their slices."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        devices: int,
        group: ProcessGroup | None = None,
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


def connected(cluster: Cluster, communication: str) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Connect to the other processes, which collective operations need, and return TensorFlow's strategy over them.

    Raises:
        Lost: another process does not answer.
    """
    task = {"type": "worker", "index": cluster.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(cluster.addresses)}, "task": task})
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[communication.upper()]
    )
    handler = signal.getsignal(signal.SIGTERM)
    with lost_processes():
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # TensorFlow has installed a handler of its own, for preemptions
    return strategy


def device_names(devices: int) -> list[str]:
    """Return the names of GPUs where there are as many, else of logical devices, into which the CPU is split."""
    kind = "GPU"
    if len(tf.config.list_physical_devices("GPU")) < devices:
        kind, cpu = "CPU", tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    return [f"{kind}:{number}" for number in range(devices)]


GROUP_KEY = 0x4D52
"""The collective group of `Processes`; TensorFlow's own groups have small numbers."""

BLOCK = 1 << 17
"""Numbers of 8 bytes that `share` sends at once."""

LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


def summed(values: tf.Tensor, processes: int, group: int, instance: int, communication: str = "auto") -> tf.Tensor:
    """Return the sum over all processes, on the present device.

    Args:
        group: the key of this device's peers, one in each process; a group has one device of a process.
        instance: the key of the operation in its group. All processes must trace their collective operations in the
            same order: TensorFlow (2.21) runs them in that order, and waits for ever where it differs.
    """
    return tf.raw_ops.CollectiveReduceV2(
        input=values,
        group_size=processes,
        group_key=group,
        instance_key=instance,
        ordering_token=[],
        merge_op="Add",
        final_op="Id",
        communication_hint=communication,
    )


class Processes:
    """The group of a multi-worker training, by collective operations between the processes' CPUs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._sums: dict[int, Callable[[tf.Tensor], tf.Tensor]] = {}
        """The compiled sum of each length: a collective operation has one shape."""

    def totals(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all processes, modulo 2^64."""
        numbers: list[int] = self._sum(np.array([signed(value) for value in values], np.int64)).tolist()
        return numbers

    def share(self, content: bytes | None) -> bytes:
        """Return the chief's content, sent in blocks to which the others add zeros."""
        [size] = self.totals([len(content or b"")])
        blocks = -(-size // (8 * BLOCK))
        buffer = np.zeros((blocks, BLOCK), np.int64)
        if content is not None:
            buffer.view(np.uint8).reshape(-1)[:size] = np.frombuffer(content, np.uint8)
        for block in buffer:
            block[:] = self._sum(block)
        return buffer.tobytes()[:size]

    def _sum(self, values: np.ndarray) -> np.ndarray:
        function = self._sums.setdefault(len(values), self._compiled(len(values), instance=1 + len(self._sums)))
        with lost_processes():
            result: np.ndarray = function(tf.constant(values)).numpy()
        return result

    def _compiled(self, length: int, instance: int) -> Callable[[tf.Tensor], tf.Tensor]:
        @tf.function(input_signature=[tf.TensorSpec((length,), tf.int64)], autograph=False)
        def reduce(values: tf.Tensor) -> tf.Tensor:
            with tf.device("CPU:0"):
                return summed(values, self.cluster.size, GROUP_KEY, instance, "ring")

        function: Callable[[tf.Tensor], tf.Tensor] = reduce
        return function


@contextmanager
def lost_processes(reported: tuple[type[Exception], ...] = LOST) -> Iterator[None]:
    """Raise `Lost` where TensorFlow reports, by one of these errors, that another process does not answer."""
    try:
        yield
    except reported as error:
        first = str(error).strip().splitlines()[0]
        raise Lost("train.strategy", first, "all workers must answer", "run again: it continues") from error
