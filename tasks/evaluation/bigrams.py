"""A bigram model of bytes with add-one smoothing: the baseline of language models that is fitted on the train split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.evaluation.units import Floats
from tasks.records.reading import RecordsReader
from tasks.snapshots.text import BYTES, text_columns

Counts = NDArray[np.int64]
"""How often each byte follows each other, int64 [256, 256]: the byte before, the byte."""
START = b"\0"
"""Stands before the first byte of a text without a prompt; few texts have it."""
CHUNK = 1 << 20
"""Bytes that are counted at once."""


def count(texts: Iterable[tuple[bytes, bytes]], at_once: int = CHUNK) -> Counts:
    """Count the bigrams of texts, each given with the text before it, of which only the last byte matters.

    Args:
        at_once: bytes that are counted at once.
    """
    counts = np.zeros(BYTES * BYTES, np.int64)
    for chunk in _chunks(texts, at_once):
        numbers = np.concatenate([_numbers(part) for part in chunk])
        counts += np.bincount(numbers, minlength=len(counts))
    return counts.reshape(BYTES, BYTES)


@lru_cache(maxsize=1)
def fitted_on(records: Path, split: str, prompt: str | None) -> Counts:
    """Count the bigrams of the texts of a split, one after another; of pairs those of the texts after the prompt.

    The last counts are kept, as each split that is evaluated asks for those of train.
    """
    reader = RecordsReader(records)
    columns = text_columns(reader, prompt)
    return count(
        (bytes(example[columns.prompt][0]) if columns.prompt is not None else b"", bytes(example[columns.text][0]))
        for example in reader.iterate(split)
    )


def bits(seen: Counts, fitted: Counts) -> float:
    """Return the bits of bigrams by a model of other counts: minus log2 of (count + 1) / (count of all bytes + 256)."""
    return float((seen * _bits_of_each(fitted)).sum())


def bits_of_texts(texts: Iterable[tuple[bytes, bytes]], fitted: Counts) -> Floats:
    """Return the bits of each text by a model of other counts, [texts]; each is given with the text before it."""
    each = _bits_of_each(fitted).ravel()
    return np.array([sum(each[_numbers(part)].sum() for part in _parts(*text, CHUNK)) for text in texts], np.float64)


def _bits_of_each(fitted: Counts) -> Floats:
    each: Floats = np.log2(fitted.sum(axis=1, keepdims=True) + BYTES) - np.log2(fitted + 1)
    return each


def _numbers(part: bytes) -> NDArray[np.int64]:
    """Return the index of each bigram of a text in flat counts, for each byte but the first."""
    values = np.frombuffer(part, np.uint8).astype(np.int64)
    return np.asarray(values[:-1] * BYTES + values[1:])


def _chunks(texts: Iterable[tuple[bytes, bytes]], at_once: int) -> Iterator[list[bytes]]:
    """Yield parts of texts, each after the byte before it, in lists of about `at_once` bytes."""
    chunk, size = list[bytes](), 0
    for before, text in texts:
        for part in _parts(before, text, at_once):
            chunk.append(part)
            size += len(part)
            if size >= at_once:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


def _parts(before: bytes, text: bytes, at_once: int) -> Iterator[bytes]:
    """Yield parts of a text of at most `at_once` bytes, each after the byte before it."""
    whole = (before[-1:] or START) + text
    for start in range(0, len(text), at_once):
        yield whole[start : start + at_once + 1]
