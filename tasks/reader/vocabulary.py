"""`vocabulary`: categories to ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values

MISSING, UNKNOWN, FIRST = 0, 1, 2
"""The ids of a missing category, of a rare or unknown one, and of the most frequent one."""


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1]."""
    ids = {"": MISSING, **{value: number for number, value in enumerate(state["values"], FIRST)}}

    def apply(values: Values) -> NDArray[np.int32]:
        return np.array([ids.get(value, UNKNOWN) for value in values], np.int32).reshape(-1, 1)

    return apply
