"""Categories to ids: by a vocabulary, or by a hash of their text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values

MISSING, UNKNOWN, FIRST = 0, 1, 2
"""The ids of a missing category, of a rare or unknown one, and of the most frequent one."""


def vocabulary(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1], the id of each category."""
    ids = {"": MISSING, **{value: number for number, value in enumerate(state["values"], FIRST)}}

    def apply(values: Values) -> NDArray[np.int32]:
        return np.array([ids.get(value, UNKNOWN) for value in values], np.int32).reshape(-1, 1)

    return apply


def hash(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to int32 [rows, 1]: 0 of a missing category, else 1 to `buckets`."""
    buckets = state["buckets"]

    def apply(values: Values) -> NDArray[np.int32]:
        return np.array([1 + bucket(value, buckets) if value else 0 for value in values], np.int32).reshape(-1, 1)

    return apply


def bucket(value: str, buckets: int) -> int:
    """Return the bucket of a text: the first eight bytes of its BLAKE2b, little-endian, modulo `buckets`."""
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little") % buckets
