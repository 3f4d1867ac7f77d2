"""Missing numbers: a value in their place, and an indicator beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values


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
