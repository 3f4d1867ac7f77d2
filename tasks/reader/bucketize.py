"""`bucketize`: numbers to the number of the interval that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1]: 0 of a missing number, 1 below the first boundary, 2 from it on, ..."""
    boundaries = np.array(state["boundaries"], np.float64)

    def apply(values: Values) -> NDArray[np.int32]:
        ids = 1 + np.searchsorted(boundaries, values.astype(np.float64), side="right")
        return np.where(np.isnan(values), 0, ids).astype(np.int32)[:, None]

    return apply
