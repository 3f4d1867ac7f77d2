"""Texts and lists of words to ids: tokens, words of a vocabulary, hashes of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .categories import FIRST, UNKNOWN, bucket
from .values import Apply, Values

PADDING = 0
WORD = re.compile(r"\w+")
CHARACTERS = 128
"""A text is read up to this number of characters for each token of the row, as an endless one would take long."""


def tokens(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint16 or uint32 [rows, length]: ids from 1 on, then `PADDING`; what is longer is cut."""
    length, encode = state["length"], _encoder(state, folder)

    def apply(values: Values) -> NDArray[Any]:
        texts = [plain(value[: (length + 1) * CHARACTERS], state["lowercase"]) for value in values]
        return _padded([np.asarray(ids[:length], np.int64) + 1 for ids in encode(texts)], state)

    return apply


def _encoder(state: dict[str, Any], folder: Path) -> Callable[[list[str]], list[Any]]:
    if state["method"] == "bytes":
        return lambda texts: [np.frombuffer(text.encode(), np.uint8) for text in texts]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str((folder / state["file"]).read_text(encoding="utf-8"))
    return lambda texts: [found.ids for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def words(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform to uint16 or uint32 [rows, length]: ids from 1 on, then `PADDING`; what is longer is cut."""
    ids = {word: number for number, word in enumerate(state["values"], FIRST)}
    length, lowercase = state["length"], state["lowercase"]

    def apply(values: Values) -> NDArray[Any]:
        return _padded([[ids.get(plain(word, lowercase), UNKNOWN) for word in row[:length]] for row in values], state)

    return apply


def hash_words(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform (Weinberger et al., ICML 2009): the number of words in each bucket, float32 [rows, buckets],
    or ids [rows, length].

    Ids are buckets from 1 on in the order of the words, then 0; words past the length are left out.
    """
    buckets, length = state["buckets"], state["length"]

    def found(text: str) -> NDArray[np.int64]:
        return np.array([bucket(word, buckets) for word in WORD.findall(plain(text, state["lowercase"]))], np.int64)

    def apply(values: Values) -> NDArray[Any]:
        if state["output"] == "ids":
            return _padded([found(text)[:length] + 1 for text in values], state)
        counts = np.zeros((len(values), buckets), np.float32)
        for row, text in zip(counts, values, strict=True):
            row += np.bincount(found(text), minlength=buckets)
        return counts

    return apply


def plain(text: str, lowercase: bool) -> str:
    """Return a text, or a word, as it is in a vocabulary."""
    return text.lower() if lowercase else text


def _padded(lists: Sequence[Any], state: dict[str, Any]) -> NDArray[Any]:
    """Return lists of ids as rows of one length, `PADDING` behind them."""
    rows = np.full((len(lists), state["length"]), PADDING, np.dtype(state["dtype"]))
    for row, ids in zip(rows, lists, strict=True):
        row[: len(ids)] = ids
    return rows
