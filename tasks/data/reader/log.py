"""`log`: the logarithm of a number's size with its sign, which the model standardises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .filled import filling
from .values import Apply


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform of x to sign(x) log(1 + |x|), float32; missing numbers are filled before."""
    return filling(state, signed_log)


def signed_log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sign(x) log(1 + |x|)."""
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)))
