"""Steps in a loop of TensorFlow's graph; their results come back as one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tasks.training.engines.tensorflow.step import HALF_SQUARES, Step


def looped(one_step: Callable[[tf.Tensor], tf.Tensor], n: tf.Tensor) -> tf.Tensor:
    """Run step 0 to n - 1, one after the other; return their results, [n, numbers]."""

    def body(k: tf.Tensor, results: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        return k + 1, results.write(k, one_step(k))

    start = (0, tf.TensorArray(tf.float32, n))
    return tf.while_loop(lambda k, _: k < n, body, start, parallel_iterations=1)[1].stack()


def packed(step: Step, returned: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return what a step has returned as one vector, which takes fewer operations than an array for each name."""
    return tf.concat([tf.reshape(returned[name], [-1]) for name in step.returned], axis=0)


def unpacked(step: Step, results: np.ndarray) -> dict[str, np.ndarray]:
    """Return the results of n steps by name, [n] or [n, variables], from their vectors [n, numbers]."""
    shapes: Sequence[tuple[int, ...]] = [
        (len(step.variables),) if name == HALF_SQUARES else () for name in step.returned
    ]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(results, ends[:-1], axis=1)
    named = zip(step.returned, shapes, parts, strict=True)
    return {name: part.reshape(len(results), *shape) for name, shape, part in named}
