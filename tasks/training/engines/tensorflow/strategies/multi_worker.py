"""What the processes of a multi-worker training exchange, and how lost ones are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from tasks.errors import Lost
from tasks.training.group import Cluster, signed

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
                return tf.raw_ops.CollectiveReduceV2(
                    input=values,
                    group_size=self.cluster.size,
                    group_key=GROUP_KEY,
                    instance_key=instance,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Id",
                    communication_hint="ring",
                )

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
