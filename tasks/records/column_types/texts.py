"""Texts and lists of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.records.column_types import TFDS, ColumnType, State, Typed
from tasks.sources import not_utf8
from tasks.sources.encoding import Encoded, bytes_entry, bytes_list_entry, sizes_of, values_of
from tasks.sources.features import Feature
from tasks.sources.values import is_list, is_octets, is_text

TEXT, LISTS = pa.large_string(), pa.list_(pa.string())
WORD = Feature("text", "string")
"""The type of a word."""


class Text(ColumnType):
    """Texts: UTF-8, a missing one is empty. Keys are texts too."""

    kinds: ClassVar[tuple[str, ...]] = ("key", "text")

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept strings, and bytes that are UTF-8."""
        if pa.types.is_dictionary(raw.type):
            raw = raw.dictionary_decode()
        if pa.types.is_null(raw.type):
            return Typed(pa.array([""] * len(raw), TEXT))
        if is_octets(raw.type):
            return _decoded(pc.fill_null(raw.cast(pa.large_binary()), b""))
        if not is_text(raw.type):
            raw = raw.cast(pa.string())
        return Typed(pc.fill_null(raw.cast(TEXT), ""))

    def missing(self, values: pa.Array) -> pa.Array:
        """Return which texts are empty."""
        return pc.equal(pc.binary_length(values), 0)

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return a `bytes_list` of one text."""
        return bytes_entry(name, values.cast(pa.large_binary()))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, missing values, and the bytes of the texts."""
        return {"missing": int(pc.sum(self.missing(values)).as_py() or 0), **_sizes(values.cast(pa.large_binary()))}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the state with the mean number of bytes."""
        return {"count": state["count"], "missing": state["missing"], "bytes": _size_summary(state)}

    def connector(self) -> dict[str, Any]:
        """Describe a `Text`."""
        return {"pythonClassName": "text_feature.Text", "text": {}}


class Words(ColumnType):
    """Lists of words: the tokens of a sentence, each a text of its own; a missing list has no words."""

    kinds = ("words",)
    noun: ClassVar[str] = "words"
    """Names the items, in the reason of a row that does not fit."""

    def items(self, flat: pa.Array) -> Typed:
        """Cast the items of all rows."""
        return Text(WORD).typed(flat)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept lists of what `items` accepts; a missing item is bad, a missing list has none."""
        empty = pa.array([[]] * len(raw), LISTS)
        if pa.types.is_null(raw.type):
            return Typed(empty)
        if not is_list(raw.type):
            there = np.flatnonzero(np.asarray(raw.is_valid()))
            return Typed(empty, dict.fromkeys(there.tolist(), f"{raw.type} is not a list of {self.noun}"))
        lengths, flat = lengths_of(raw), pc.list_flatten(raw)
        owners = np.repeat(np.arange(len(raw)), lengths)
        if pa.types.is_nested(flat.type):
            return Typed(empty, dict.fromkeys(owners.tolist(), f"lists of {flat.type}, and not of {self.noun}"))
        cast = self.items(flat)
        bad: dict[int, str] = {}
        gone = np.flatnonzero(np.asarray(flat.is_null()))
        for place, reason in sorted({**dict.fromkeys(gone.tolist(), "missing"), **cast.bad}.items()):
            row = int(owners[place])
            bad.setdefault(row, f"{self.noun[:-1]} {place - int(lengths[:row].sum())}: {reason}")
        return Typed(lists_of(cast.values.cast(pa.string()), lengths), bad)

    def missing(self, values: pa.Array) -> pa.Array:
        """Return which lists have no words."""
        return pa.array(lengths_of(values) == 0)

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return a `bytes_list` with a value for each word."""
        return bytes_list_entry(name, values.flatten().cast(pa.large_binary()), lengths_of(values))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return the number of lists, those without words, and the smallest, largest and total number of words."""
        lengths = lengths_of(values)
        figures = {"count": len(lengths), "missing": int((lengths == 0).sum())}
        if not len(lengths):
            return {**figures, "words": {"sum": 0}}
        extent = {"min": int(lengths.min()), "max": int(lengths.max()), "sum": int(lengths.sum())}
        return {**figures, "words": extent}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the state with the mean number of words."""
        words = state["words"]
        mean = {"mean": words["sum"] / state["count"]} if state["count"] else {}
        return {**state, "words": {name: words[name] for name in ("min", "max") if name in words} | mean}

    def connector(self) -> dict[str, Any]:
        """Describe a `Sequence` of `Text`."""
        return sequence({"pythonClassName": f"{TFDS}.text_feature.Text", "text": {}})


def _decoded(raw: Encoded) -> Typed:
    try:
        return Typed(raw.cast(TEXT))
    except pa.ArrowInvalid:
        bad, texts = {}, []
        for row, content in enumerate(values_of(raw)):
            try:
                texts.append(content.decode())
            except UnicodeDecodeError as error:
                bad[row] = not_utf8(error)
                texts.append("")
        return Typed(pa.array(texts, TEXT), bad)


def _sizes(values: Encoded) -> State:
    """Return the number of values, and their smallest, largest and total number of bytes."""
    lengths = sizes_of(values)
    if not len(lengths):
        return {"count": 0, "bytes": {"sum": 0}}
    extent = {"min": int(lengths.min()), "max": int(lengths.max()), "sum": int(np.sum(lengths))}
    return {"count": len(lengths), "bytes": extent}


def _size_summary(state: State) -> dict[str, Any]:
    """Return smallest, largest and mean number of bytes."""
    size = state["bytes"]
    if not state["count"]:
        return {}
    return {"min": size["min"], "max": size["max"], "mean": size["sum"] / state["count"]}


def lists_of(flat: pa.Array, lengths: NDArray[np.int64]) -> pa.ListArray:
    """Return lists of these lengths, [n], of consecutive values."""
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), flat)


def lengths_of(values: pa.Array) -> NDArray[np.int64]:
    """Return the number of items of each list, int64 [n], 0 of a missing one."""
    return np.asarray(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)


def sequence(item: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a `Sequence` of any length."""
    return {"pythonClassName": "sequence_feature.Sequence", "sequence": {"feature": item, "length": "-1"}}
