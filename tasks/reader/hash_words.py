"""`hash_words`: the words of a text in a fixed number of buckets (Weinberger et al., ICML 2009)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .hash import bucket
from .values import Apply, Values

WORD = re.compile(r"\w+")


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform: the number of words in each bucket, float32 [rows, buckets], or ids [rows, length].

    Ids are buckets from 1 on in the order of the words, then 0; words past the length are left out.
    """
    buckets, length = state["buckets"], state["length"]

    def found(text: str) -> list[int]:
        return [bucket(word, buckets) for word in WORD.findall(text.lower() if state["lowercase"] else text)]

    def apply(values: Values) -> NDArray[Any]:
        rows = np.zeros((len(values), *state["shape"]), np.dtype(state["dtype"]))
        for row, text in zip(rows, values, strict=True):
            if state["output"] == "ids":
                ids = found(text)[:length]
                row[: len(ids)] = np.array(ids, np.int64) + 1
            else:
                row += np.bincount(np.array(found(text), np.int64), minlength=buckets).astype(np.float32)
        return rows

    return apply
