"""Numbers: as they are, in logarithms, as ranks or as the numbers of intervals; missing ones have a value and an
indicator.

Logarithms are computed by operations that IEEE 754 rounds alike everywhere: those of libraries differ in their last
bits. The functions with `space` and `frexp` take the arrays of NumPy or, with its namespace and `frexp`, the tensors of
TensorFlow. They never add a sum, or a constant to a difference of one: TensorFlow orders such sums anew before it
computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values


def standardise(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of numbers to float32, which the model standardises; missing ones are filled."""
    return filling(state, lambda values: values)


keep = standardise
"""The same of numbers that the model takes as they are."""


def log(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of x to sign(x) log(1 + |x|), float32; missing numbers are filled before."""
    return filling(state, signed)


def quantile(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of numbers to float32 by linear interpolation between quantiles."""
    values, levels = np.array(state["values"], np.float64), np.array(state["levels"], np.float64)

    def change(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        ranks: NDArray[np.float64] = np.interp(numbers, values, levels)
        return OUTPUTS[state["output"]](ranks)

    return filling(state, change)


def bucketize(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1]: 0 of a missing number, 1 below the first boundary, 2 from it on, ..."""
    boundaries = np.array(state["boundaries"], np.float64)

    def apply(values: Values) -> NDArray[np.int32]:
        ids = 1 + np.searchsorted(boundaries, values.astype(np.float64), side="right")
        return np.where(np.isnan(values), 0, ids).astype(np.int32)[:, None]

    return apply


def filling(state: dict[str, Any], change: Callable[[NDArray[np.float64]], NDArray[Any]]) -> Apply:
    """Return a transform that fills missing numbers, and then changes them.

    Args:
        state: `fill` (a number; of an array those of its values), `shape` of an example, and `indicator`.
        change: from float64 to the result, value by value.

    Returns:
        Of a scalar float32 [rows, 1], or [rows, 2] with 1 in the second place where it is missing; else [rows, *shape].
    """
    shape = tuple(state["shape"])
    fill = np.array(state["fill"], np.float64).reshape(shape)

    def apply(values: Values) -> NDArray[np.float32]:
        missing = np.isnan(values)
        changed = change(np.where(missing, fill, values.astype(np.float64))).astype(np.float32)
        if shape:
            return changed
        columns = [changed, missing.astype(np.float32)] if state["indicator"] else [changed]
        return np.stack(columns, axis=1)

    return apply


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
    return exponent * HIGH - (exponent * LOW - ratio * _polynomial(SERIES, square))


def signed(values: Any, space: Any = np, frexp: Any = np.frexp) -> Any:
    """Return sign(x) log(1 + |x|) of float64 numbers that float32 holds: the sum 1 + |x| is exact, or does not matter.

    Args:
        space: the module with `where`, `sign`, `abs` and `maximum`.
        frexp: returns a mantissa in [0.5, 1) and the exponent of 2.
    """
    size = space.abs(values)
    near_zero = size - size * size * 0.5
    return space.sign(values) * space.where(size < SMALL, near_zero, natural(size + 1.0, space, frexp))


TAIL = 1e-7
"""Ranks this near to 0 and 1 become the normal quantiles -5.2 and 5.2."""

# Coefficients of AS241's PPND16, highest power first: two lines of numerators, two of denominators.
CENTER = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457),
    (13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867),
    (5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)
MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258),
    (3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459),
    (0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)


def uniform(ranks: Any, space: Any = np, frexp: Any = np.frexp) -> Any:
    """Return the ranks as they are."""
    return ranks


def normal(ranks: Any, space: Any = np, frexp: Any = np.frexp) -> Any:
    """Return the quantiles of the standard normal distribution at ranks, which are kept from 0 and 1 by `TAIL`.

    Wichura, Algorithm AS241, Applied Statistics 37 (1988), with a relative error of 1e-16. It takes arrays or tensors,
    as `logarithm.natural` does.
    """
    ranks = space.minimum(space.maximum(ranks, TAIL), 1 - TAIL)
    centered = ranks - 0.5
    near = 0.180625 - centered * centered
    tail = space.sqrt(-natural(space.minimum(ranks, 1 - ranks), space, frexp))
    outer = _ratio(MIDDLE, tail - 1.6)
    return space.where(near >= 0, centered * _ratio(CENTER, near), space.where(centered < 0, -outer, outer))


OUTPUTS = {"uniform": uniform, "normal": normal}
"""What becomes of a rank, by `output`."""


def _ratio(coefficients: tuple[tuple[float, ...], ...], at: Any) -> Any:
    numerator, denominator = (*coefficients[0], *coefficients[1]), (*coefficients[2], *coefficients[3])
    return _polynomial(numerator, at) / _polynomial(denominator, at)


def _polynomial(coefficients: tuple[float, ...], at: Any) -> Any:
    """Return the value of a polynomial by Horner's rule."""
    value: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * at + coefficient
    return value
