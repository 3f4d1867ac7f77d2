"""Texts: UTF-8, a missing one is empty. Keys are texts too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.records.kinds import State, Typed, merge_by_key
from tasks.sources.encoding import Encoded, bytes_entry, lengths_of, values_of
from tasks.sources.features import Feature

TYPE = pa.large_string()


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept strings, and bytes that are UTF-8."""
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if pa.types.is_null(raw.type):
        return Typed(pa.array([""] * len(raw), TYPE))
    if pa.types.is_binary(raw.type) or pa.types.is_large_binary(raw.type):
        return _decoded(pc.fill_null(raw.cast(pa.large_binary()), b""))
    if not (pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type)):
        raw = raw.cast(pa.string())
    return Typed(pc.fill_null(raw.cast(TYPE), ""))


def _decoded(raw: Encoded) -> Typed:
    try:
        return Typed(raw.cast(TYPE))
    except pa.ArrowInvalid:
        bad, texts = {}, []
        for row, content in enumerate(values_of(raw)):
            try:
                texts.append(content.decode())
            except UnicodeDecodeError as error:
                bad[row] = f"byte {error.start} (0x{content[error.start]:02x}) is not UTF-8"
                texts.append("")
        return Typed(pa.array(texts, TYPE), bad)


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which texts are empty."""
    return pc.equal(pc.binary_length(values), 0)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return a `bytes_list` of one text."""
    return bytes_entry(name, values.cast(pa.large_binary()))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return count, missing values, and the bytes of the texts."""
    return {"missing": int(pc.sum(missing(feature, values)).as_py() or 0), **sizes(values.cast(pa.large_binary()))}


def sizes(values: Encoded) -> State:
    """Return the number of values, and their smallest, largest and total number of bytes."""
    lengths = lengths_of(values)
    if not len(lengths):
        return {"count": 0, "bytes": {"sum": 0}}
    extent = {"min": int(lengths.min()), "max": int(lengths.max()), "sum": int(np.sum(lengths))}
    return {"count": len(lengths), "bytes": extent}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the state with the mean number of bytes."""
    return {"count": state["count"], "missing": state["missing"], "bytes": size_summary(state)}


def size_summary(state: State) -> dict[str, Any]:
    """Return smallest, largest and mean number of bytes."""
    size = state["bytes"]
    if not state["count"]:
        return {}
    return {"min": size["min"], "max": size["max"], "mean": size["sum"] / state["count"]}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Text`."""
    return {"pythonClassName": "text_feature.Text", "text": {}}
