"""Horovod, one process a device, and the server by which its processes find each other.

Horovod's own wrappers of Keras are not used: with Keras 3 its `DistributedOptimizer` reduces nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from tasks.training.engines.tensorflow.strategies import OneDeviceStrategy
from tasks.training.engines.tensorflow.strategies.replicated import lost_processes
from tasks.training.group import Cluster, signed

lost = partial(lost_processes, (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.CancelledError))
"""Converts what Horovod reports where another process has died, does not answer, or has left."""


class Processes:
    """The group of a Horovod training, by operations between the processes' CPUs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def totals(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all processes, modulo 2^64."""
        own = np.array([signed(value) for value in values], np.int64)
        with lost(), tf.device("CPU:0"):
            numbers: list[int] = hvd.allreduce(tf.constant(own), op=hvd.Sum, name="totals").numpy().tolist()
        return numbers

    def share(self, content: bytes | None) -> bytes:
        """Return the chief's content."""
        [size] = self.totals([len(content or b"")])
        own = np.zeros(size, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        with lost(), tf.device("CPU:0"):
            shared: bytes = hvd.broadcast(tf.constant(own), root_rank=0, name="share").numpy().tobytes()
        return shared


def reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Return the sums over all processes; a group of tensors is always added in the same order."""
    sums: list[tf.Tensor] = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="sums")
    return sums


class HorovodStrategy(OneDeviceStrategy):
    """A plain model on the device of this process."""

    def close(self) -> None:
        """Tell the other processes that this one ends; without it they log that the connection was lost."""
        hvd.shutdown()
