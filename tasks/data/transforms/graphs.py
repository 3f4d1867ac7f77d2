"""Transforms as operations of TensorFlow, whose results have the bits of those of `tasks.data.reader`.

TensorFlow treats subnormal numbers as zero, and regroups sums, products and quotients with constants before it computes
them. So numbers are rounded to float32 here, and formulas have no two constants that meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

Graph = Callable[[Any], Any]
"""Takes the values of a column as a tensor: numbers float64 [n, *shape] that float32 holds, NaN where missing;
categories and texts string [n], UTF-8; times int64 [n], as `tasks.data.reader.values` says. Returns what the reader's
`Apply` does; unsigned integers may be int32."""

NORMAL, STEP = 2.0**-126, 2.0**-149
"""The smallest normal float32, and the distance of the numbers below it."""


def nearest_float32(numbers: tf.Tensor) -> tf.Tensor:
    """Round float64 numbers to those that float32 holds, still as float64."""
    import tensorflow as tf

    subnormal = tf.math.rint(numbers * (1 / STEP)) * STEP
    return tf.where(tf.abs(numbers) < NORMAL, subnormal, tf.cast(tf.cast(numbers, tf.float32), tf.float64))


def as_float32(numbers: tf.Tensor) -> tf.Tensor:
    """Convert float64 numbers to the nearest float32."""
    import tensorflow as tf

    small = tf.abs(numbers) < NORMAL
    steps = tf.cast(tf.math.rint(tf.abs(tf.where(small, numbers, 0.0)) * (1 / STEP)), tf.int32)
    sign = tf.where(tf.bitcast(numbers, tf.int64) < 0, tf.int32.min, 0)
    return tf.where(small, tf.bitcast(tf.bitwise.bitwise_or(steps, sign), tf.float32), tf.cast(numbers, tf.float32))


def frexp(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the mantissa in [0.5, 1) and the exponent of 2 of positive normal float64 numbers, both float64."""
    import tensorflow as tf

    bits = tf.bitcast(numbers, tf.int64)
    exponent = tf.bitwise.right_shift(bits, tf.constant(52, tf.int64)) - 1022
    mantissa = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(bits, (1 << 52) - 1), 1022 << 52)
    return tf.bitcast(mantissa, tf.float64), tf.cast(exponent, tf.float64)


def filling(state: dict[str, Any], change: Graph) -> Graph:
    """Return a transform that fills missing numbers, and then changes them, as `tasks.data.reader.filled` does."""

    def apply(numbers: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        fill = np.array(state["fill"], np.float64).reshape(state["shape"])
        missing = tf.math.is_nan(numbers)
        changed = as_float32(change(tf.where(missing, fill, numbers)))
        if state["shape"]:
            return changed
        columns = [changed, tf.cast(missing, tf.float32)] if state["indicator"] else [changed]
        return tf.stack(columns, axis=1)

    return apply
