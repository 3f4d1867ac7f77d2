"""`tokens`: texts to rows of token ids of one length."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .values import Apply, Values

PADDING = 0
CHARACTERS = 128
"""A text is read up to this number of characters for each token of the row, as an endless one would take long."""


def load(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint16 or uint32 [rows, length]: ids from 1 on, then `PADDING`; what is longer is cut."""
    length, encode = state["length"], _encoder(state, folder)

    def apply(values: Values) -> NDArray[Any]:
        rows = np.full((len(values), length), PADDING, np.dtype(state["dtype"]))
        texts = [value[: (length + 1) * CHARACTERS] for value in values]
        for row, ids in zip(
            rows, encode([text.lower() if state["lowercase"] else text for text in texts]), strict=True
        ):
            kept = ids[:length]
            row[: len(kept)] = np.asarray(kept, np.int64) + 1
        return rows

    return apply


def _encoder(state: dict[str, Any], folder: Path) -> Callable[[list[str]], list[Any]]:
    if state["method"] == "bytes":
        return lambda texts: [np.frombuffer(text.encode(), np.uint8) for text in texts]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str((folder / state["file"]).read_text(encoding="utf-8"))
    return lambda texts: [found.ids for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
