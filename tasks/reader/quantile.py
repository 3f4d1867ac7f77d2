"""`quantile`: numbers to their rank, uniform in [0, 1] or as normally distributed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .filled import filling
from .logarithm import natural
from .values import Apply

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


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of numbers to float32 by linear interpolation between quantiles."""
    values, levels = np.array(state["values"], np.float64), np.array(state["levels"], np.float64)

    def change(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        ranks: NDArray[np.float64] = np.interp(numbers, values, levels)
        return OUTPUTS[state["output"]](ranks)

    return filling(state, change)


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
