"""Tags of words in a table's snapshot: a row of class numbers beside the row of words, and what is cut of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.task import UNTAGGED
from tasks.errors import Refused
from tasks.reader.categories import UNKNOWN
from tasks.snapshots.transforms import own_array
from tasks.sources.features import Feature

WORDS, CUT, UNKNOWN_WORDS = "words", "cut", "unknown_words"
"""What is counted of lists of words: all, those past the length of a row, and the unknown ones of the others."""


def length_of(records: Mapping[str, Feature], arrays: Mapping[str, dict[str, Any]], states: Mapping[str, Any]) -> int:
    """Return the length of the rows of words, which is that of the rows of tags.

    Args:
        records: features of the records.
        arrays: the snapshot's arrays by name.
        states: the fitted transforms by column.

    Raises:
        Refused: the words become something other than a row of ids, or rows of several lengths.
    """
    lengths = {}
    for name in columns_of(records):
        if (kind := states[name]["kind"]) != "words":
            rule = "tags belong to the words of a row, which the transform words keeps"
            raise Refused(f"snapshot.transforms.{name}.kind", kind, rule, "use words")
        lengths[name] = int(arrays[own_array(name)]["shape"][0])
    if len(set(lengths.values())) > 1:
        saw = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise Refused("snapshot.transforms", saw, "the rows of all words have one length, as their tags", "set it so")
    return next(iter(lengths.values()))


def columns_of(records: Mapping[str, Feature]) -> list[str]:
    """Return the names of the inputs that are lists of words."""
    return [name for name, each in sorted(records.items()) if each.kind == "words" and each.role == "input"]


def padded_tags(tags: Sequence[Sequence[int]], length: int) -> NDArray[np.int32]:
    """Return class numbers as rows, int32 [n, length], with `UNTAGGED` after the last word; what is longer is cut."""
    rows = np.full((len(tags), length), UNTAGGED, np.int32)
    for row, numbers in zip(rows, tags, strict=True):
        kept = numbers[:length]
        row[: len(kept)] = kept
    return rows


def counted(words: Sequence[Sequence[str]], ids: NDArray[Any]) -> Counter[str]:
    """Return the number of words, of those that are cut, and of the unknown ones of the others.

    Args:
        ids: of the same rows by the transform `words`, [n, length].
    """
    lengths = np.array([len(each) for each in words], np.int64)
    cut = np.maximum(lengths - ids.shape[1], 0).sum()
    return Counter({WORDS: int(lengths.sum()), CUT: int(cut), UNKNOWN_WORDS: int((ids == UNKNOWN).sum())})


def shares_of(counts: Counter[str]) -> dict[str, float]:
    """Return the share of words that are cut, and of unknown ones among the others; nothing where there are none."""
    kept = counts[WORDS] - counts[CUT]
    if not kept:
        return {}
    return {CUT: counts[CUT] / counts[WORDS], UNKNOWN_WORDS: counts[UNKNOWN_WORDS] / kept}
