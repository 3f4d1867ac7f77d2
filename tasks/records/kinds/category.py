"""Categories: short strings of which there are few; a missing one is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.reader.values import BLANKS, WHOLE
from tasks.records.kinds import State, Typed, text
from tasks.sources.encoding import Encoded, bytes_entry
from tasks.sources.features import Feature

TYPE = pa.string()

MAX_VALUES = 10_000
"""Different values that are counted one by one; of more only the number is known."""
MAX_BYTES = 1024
"""Length of a value at most; a longer one is a text."""
TOP = 20
"""Most frequent values in a summary."""


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept strings, without blanks at their ends, integers, booleans (`true`), and numbers by their shortest form.

    What is written `1.0` is `1`, as one missing value makes floats of a column of integers; `3.10` stays what it is.
    """
    if pa.types.is_floating(raw.type):
        # What was an integer before a missing value made a float of its column is an integer again.
        numbers = raw.to_numpy(zero_copy_only=False).astype(np.float64)
        whole = np.isfinite(numbers) & (np.trunc(numbers) == numbers) & (np.abs(numbers) < 2**53)
        integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(TYPE)
        shortest = pc.if_else(pa.array(np.isnan(numbers)), "", pa.array(numbers).cast(TYPE))
        raw = pc.if_else(pa.array(whole), integers, shortest)
    cast = text.typed(feature, raw, max_pixels)
    values = plain(cast.values.cast(TYPE))
    long = np.flatnonzero(np.asarray(pc.greater(pc.binary_length(values), MAX_BYTES)))
    reasons = {int(row): f"a value of more than {MAX_BYTES} bytes is a text, not a category" for row in long}
    return Typed(values, {**reasons, **cast.bad})


def plain(values: pa.Array) -> pa.Array:
    """Return texts without blanks at their ends, and whole numbers without a fraction."""
    return pc.replace_substring_regex(pc.utf8_trim(values, BLANKS), WHOLE, r"\1")


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which values are empty."""
    return text.missing(feature, values)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return a `bytes_list` of one value."""
    return bytes_entry(name, values.cast(pa.large_binary()))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return count, missing values, and how often each value occurs."""
    counts = counts_of(values)
    return {"count": len(values), "missing": counts.pop("", 0), "values": limited(counts)}


def counts_of(values: pa.Array) -> dict[str, int]:
    """Return how often each value occurs."""
    counted = pc.value_counts(values)
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def limited(counts: dict[str, int]) -> dict[str, int] | None:
    """Return counts by value; None of too many."""
    return dict(sorted(counts.items())) if len(counts) <= MAX_VALUES else None


def merge(left: State, right: State) -> State:
    """Merge two states; too many different values stay too many."""
    both = {key: left[key] + right[key] for key in ("count", "missing")}
    if left["values"] is None or right["values"] is None:
        return {**both, "values": None}
    counts = dict(left["values"])
    for value, count in right["values"].items():
        counts[value] = counts.get(value, 0) + count
    return {**both, "values": limited(counts)}


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return count, missing, the number of different values (None: more than `MAX_VALUES`), and the most frequent."""
    counts = state["values"]
    most = sorted((counts or {}).items(), key=lambda item: (-item[1], item[0]))[:TOP]
    figures = {"count": state["count"], "missing": state["missing"]}
    return {**figures, "distinct": None if counts is None else len(counts), "top": [list(item) for item in most]}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Text`."""
    return text.connector(feature)
