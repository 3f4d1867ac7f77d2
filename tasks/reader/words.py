"""`words`: lists of words to rows of ids of one length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tokens import PADDING
from .values import Apply, Values

UNKNOWN, FIRST = 1, 2
"""The ids of a rare or unknown word, and of the most frequent one; that of padding is `tokens.PADDING`."""


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint16 or uint32 [rows, length]: ids from 1 on, then `PADDING`; what is longer is cut."""
    ids = {word: number for number, word in enumerate(state["values"], FIRST)}
    length, lowercase = state["length"], state["lowercase"]

    def apply(values: Values) -> NDArray[Any]:
        rows = np.full((len(values), length), PADDING, np.dtype(state["dtype"]))
        for row, words in zip(rows, values, strict=True):
            kept = words[:length]
            row[: len(kept)] = [ids.get(plain(word, lowercase), UNKNOWN) for word in kept]
        return rows

    return apply


def plain(word: str, lowercase: bool) -> str:
    """Return a word as it is in a vocabulary."""
    return word.lower() if lowercase else word
