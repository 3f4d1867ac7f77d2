"""Logarithms by operations that IEEE 754 rounds alike everywhere: those of libraries differ in their last bits.

The functions take the arrays of NumPy or, with its namespace and `frexp`, the tensors of TensorFlow. They never add a
sum, or a constant to a difference of one: TensorFlow orders such sums anew before it computes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HIGH, LOW = 0.6931471803691238, -1.9082149292705877e-10
"""log 2 is HIGH - LOW; the product of HIGH with an exponent is exact, as it has 33 bits."""

ROOT = 0.7071067811865476

SERIES = tuple(2 / power for power in range(23, 0, -2))
"""Coefficients of log((1 + x) / (1 - x)) / x = 2 + 2/3 x² + 2/5 x⁴ + ..., highest power first."""

SMALL = 2.0**-29


def natural(values: Any, space: Any = np, frexp: Any = np.frexp) -> Any:
    """Return the natural logarithm of normal float64 numbers, with an error of at most 3 units in the last place.

    Args:
        space: the module with `where`.
        frexp: returns a mantissa in [0.5, 1) and the exponent of 2.
    """
    mantissa, exponent = frexp(values)
    low = mantissa < ROOT
    mantissa = space.where(low, mantissa * 2.0, mantissa)
    exponent = space.where(low, exponent - 1, exponent)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = SERIES[0]
    for coefficient in SERIES[1:]:
        series = series * square + coefficient
    return exponent * HIGH - (exponent * LOW - ratio * series)


def signed(values: Any, space: Any = np, frexp: Any = np.frexp) -> Any:
    """Return sign(x) log(1 + |x|) of float64 numbers that float32 holds: the sum 1 + |x| is exact, or does not matter.

    Args:
        space: the module with `where`, `sign`, `abs` and `maximum`.
        frexp: returns a mantissa in [0.5, 1) and the exponent of 2.
    """
    size = space.abs(values)
    near_zero = size - size * size * 0.5
    return space.sign(values) * space.where(size < SMALL, near_zero, natural(size + 1.0, space, frexp))
