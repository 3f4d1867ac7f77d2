"""`hash`: categories to one of a fixed number of buckets."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1]: 0 of a missing category, else 1 to `buckets`."""
    buckets = state["buckets"]

    def apply(values: Values) -> NDArray[np.int32]:
        return np.array([1 + bucket(value, buckets) if value else 0 for value in values], np.int32).reshape(-1, 1)

    return apply


def bucket(value: str, buckets: int) -> int:
    """Return the bucket of a text: the first eight bytes of its BLAKE2b, little-endian, modulo `buckets`."""
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little") % buckets
