"""Lists of words: the tokens of a sentence, each a text of its own; a missing list has no words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.kinds import State, Typed, merge_by_key, text
from tasks.sources.encoding import Encoded, bytes_list_entry
from tasks.sources.features import Feature

TYPE = pa.list_(pa.string())
WORD = Feature("text", "string")
"""The type of a word."""
SEQUENCE = "tensorflow_datasets.core.features"


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept lists of what a text is; a missing word is bad, a missing list has no words."""
    return typed_lists(raw, "words", lambda flat: text.typed(WORD, flat, max_pixels))


def typed_lists(raw: pa.Array, noun: str, of_items: Callable[[pa.Array], Typed]) -> Typed:
    """Return lists of strings.

    Args:
        noun: names the items, in the reason of a row that does not fit.
        of_items: casts the items of all rows.
    """
    empty = pa.array([[]] * len(raw), TYPE)
    if pa.types.is_null(raw.type):
        return Typed(empty)
    if not (pa.types.is_list(raw.type) or pa.types.is_large_list(raw.type) or pa.types.is_fixed_size_list(raw.type)):
        there = np.flatnonzero(np.asarray(raw.is_valid()))
        return Typed(empty, dict.fromkeys(there.tolist(), f"{raw.type} is not a list of {noun}"))
    lengths, flat = lengths_of(raw), pc.list_flatten(raw)
    owners = np.repeat(np.arange(len(raw)), lengths)
    if pa.types.is_nested(flat.type):
        return Typed(empty, dict.fromkeys(owners.tolist(), f"lists of {flat.type}, and not of {noun}"))
    cast = of_items(flat)
    bad: dict[int, str] = {}
    gone = np.flatnonzero(np.asarray(flat.is_null()))
    for place, reason in sorted({**dict.fromkeys(gone.tolist(), "missing"), **cast.bad}.items()):
        row = int(owners[place])
        bad.setdefault(row, f"{noun[:-1]} {place - int(lengths[:row].sum())}: {reason}")
    return Typed(lists_of(cast.values.cast(pa.string()), lengths), bad)


def lists_of(flat: pa.Array, lengths: NDArray[np.int64]) -> pa.ListArray:
    """Return lists of these lengths, [n], of consecutive values."""
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), flat)


def lengths_of(values: pa.Array) -> NDArray[np.int64]:
    """Return the number of items of each list, int64 [n], 0 of a missing one."""
    return np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which lists have no words."""
    return pa.array(lengths_of(values) == 0)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return a `bytes_list` with a value for each word."""
    return bytes_list_entry(name, values.flatten().cast(pa.large_binary()), lengths_of(values))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return the number of lists, those without words, and the smallest, largest and total number of words."""
    lengths = lengths_of(values)
    figures = {"count": len(lengths), "missing": int((lengths == 0).sum())}
    if not len(lengths):
        return {**figures, "words": {"sum": 0}}
    extent = {"min": int(lengths.min()), "max": int(lengths.max()), "sum": int(lengths.sum())}
    return {**figures, "words": extent}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the state with the mean number of words."""
    words = state["words"]
    mean = {"mean": words["sum"] / state["count"]} if state["count"] else {}
    return {**state, "words": {name: words[name] for name in ("min", "max") if name in words} | mean}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Sequence` of `Text`."""
    return sequence({"pythonClassName": f"{SEQUENCE}.text_feature.Text", "text": {}})


def sequence(item: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a `Sequence` of any length."""
    return {"pythonClassName": "sequence_feature.Sequence", "sequence": {"feature": item, "length": "-1"}}
