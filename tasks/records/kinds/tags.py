"""Tags: a label for each word of a list; the names of classes while examples are sorted, their numbers in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.records.kinds import State, Typed, category, merge_by_key
from tasks.records.kinds.words import SEQUENCE, TYPE, lengths_of, sequence, typed_lists
from tasks.sources.encoding import Encoded, integer_list_entry
from tasks.sources.features import OTHER, Feature, of_role

__all__ = ["TYPE"]

TAG = Feature("category", "string")
"""The type of a tag."""
NUMBER = r"^(0|[1-9]\d{0,8})$"


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept lists of what a category is; a missing tag or list, and a tag that is not among known classes, is bad.

    Where classes are known and none is called by a number, an integer is the number of a class, from 0.
    """

    def of_items(flat: pa.Array) -> Typed:
        cast = category.typed(TAG, flat, max_pixels)
        gone = np.flatnonzero(np.asarray(category.missing(TAG, cast.values)))
        values, unknown = _known(cast.values, feature.classes)
        return Typed(values, {**unknown, **dict.fromkeys(gone.tolist(), "missing"), **cast.bad})

    lists = typed_lists(raw, "tags", of_items)
    absent = np.flatnonzero(lengths_of(lists.values) == 0)
    return Typed(lists.values, {**dict.fromkeys(absent.tolist(), "missing"), **lists.bad})


def _known(values: pa.Array, classes: tuple[str, ...] | None) -> tuple[pa.Array, dict[int, str]]:
    """Return tags as names of classes, and the reasons of those that are none; any name is known for None."""
    if classes is None:
        return values, {}
    names = pa.array(classes, pa.string())
    if not pc.any(pc.match_substring_regex(names, NUMBER)).as_py():
        numbers = pc.if_else(pc.match_substring_regex(values, NUMBER), values, None).cast(pa.int64())
        within = pc.if_else(pc.less(numbers, len(classes) - (classes[-1] == OTHER)), numbers, None)
        values = pc.coalesce(names.take(within), values)
    known = pc.is_in(values, names)
    if OTHER in classes:
        return pc.if_else(known, values, OTHER), {}
    others = np.flatnonzero(~np.asarray(known))
    return values, {int(row): f"{values[int(row)].as_py()!r} is none of source.classes" for row in others}


def unequal(features: Mapping[str, Feature], table: pa.Table) -> dict[int, str]:
    """Return by row why its tags do not belong to its words: there must be one for each."""
    bad: dict[int, str] = {}
    for name, feature in of_role(dict(features), "label").items():
        if feature.kind != "tags":
            continue
        tags = lengths_of(table[name].combine_chunks())
        for words in (each for each, other in sorted(features.items()) if other.kind == "words"):
            count = lengths_of(table[words].combine_chunks())
            for row in np.flatnonzero(tags != count).tolist():
                bad.setdefault(row, f"{tags[row]} tags in {name} for {count[row]} words in {words}")
    return bad


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which lists have no tags; none does."""
    return pa.array(lengths_of(values) == 0)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return an `int64_list` with the class number of each tag."""
    numbers = pc.index_in(values.flatten(), pa.array(feature.classes or (), pa.string()))
    return integer_list_entry(name, np.asarray(numbers).astype(np.int64), lengths_of(values))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return the number of lists, and of tags of each class by name."""
    return {"count": len(values), "classes": dict(sorted(category.counts_of(values.flatten()).items()))}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the number of lists, and of tags of each class in the order of their numbers."""
    return {"count": state["count"], "classes": {name: state["classes"].get(name, 0) for name in feature.classes or ()}}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Sequence` of `ClassLabel`."""
    size = {"numClasses": str(len(feature.classes or ()))}
    return sequence({"pythonClassName": f"{SEQUENCE}.class_label_feature.ClassLabel", "classLabel": size})
