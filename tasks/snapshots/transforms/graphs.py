"""Transforms as operations of TensorFlow, whose results have the bits of those of `tasks.reader`.

TensorFlow treats subnormal numbers as zero, and regroups sums, products and quotients with constants before it computes
them. So numbers are rounded to float32 here, and formulas have no two constants that meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import tensorflow as tf

Graph = Callable[[Any], Any]
"""Takes the values of columns of one kind and shape as a tensor: numbers float64 [n, columns, *shape] that float32
holds, NaN where missing; categories and texts string [n, columns], UTF-8; times int64 [n, columns], as
`tasks.reader.values` says. Returns what the reader's `Apply` does of each column, [n, columns, ...]; unsigned
integers may be int32. A table of thousands of columns has few of them: each operation costs milliseconds wherever the
graph is written, converted, checked and loaded."""

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


def stacked(rows: Sequence[Sequence[float]], padding: float) -> NDArray[np.float64]:
    """Return lists of numbers as float64 [rows, longest + 1]; what is after the end of a list is `padding`."""
    table = np.full((len(rows), max(map(len, rows)) + 1), padding, np.float64)
    for own, row in zip(table, rows, strict=True):
        own[: len(row)] = row
    return table


def filling(states: Sequence[dict[str, Any]], change: Graph) -> Graph:
    """Return transforms that fill missing numbers, and then change them, as `tasks.reader.filled` does."""
    shape, indicator = states[0]["shape"], states[0]["indicator"]
    fill = np.array([state["fill"] for state in states], np.float64).reshape(-1, *shape)

    def apply(numbers: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        missing = tf.math.is_nan(numbers)
        changed = as_float32(change(tf.where(missing, fill, numbers)))
        if shape:
            return changed
        return tf.stack([changed, tf.cast(missing, tf.float32)] if indicator else [changed], axis=2)

    return apply
