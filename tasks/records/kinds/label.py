"""Labels: the name of a class while examples are sorted, its number in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.records.kinds import State, Typed, category, merge_by_key
from tasks.sources.encoding import Encoded, integer_entry
from tasks.sources.features import OTHER, Feature

TYPE = pa.string()

FRACTION = r"^([+-]?[0-9]+\.[0-9]*[1-9])0+$"
"""A number with zeros at the end of its fraction."""


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept what a category is; a missing label, and one that is not among known classes, is bad."""
    cast = category.typed(feature, raw, max_pixels)
    values = plain_classes(cast.values, feature.renamed)
    bad = {int(row): "missing" for row in np.flatnonzero(np.asarray(category.missing(feature, values)))}
    if feature.classes is not None:
        known = pc.is_in(values, pa.array(feature.classes, TYPE))
        if OTHER in feature.classes:
            values = pc.if_else(known, values, OTHER)
        else:
            for row in np.flatnonzero(~np.asarray(known)):
                bad.setdefault(int(row), f"{values[int(row)].as_py()!r} is none of source.classes")
    return Typed(values, {**bad, **cast.bad})


def plain_classes(names: pa.Array, renamed: Mapping[str, str] | None = None) -> pa.Array:
    """Return the names of classes without blanks at the ends, and of numbers the shortest: `1` for `1.0`.

    Args:
        renamed: classes by the names that the source has for them.
    """
    plain = pc.replace_substring_regex(category.plain(names.cast(TYPE)), FRACTION, r"\1")
    if not renamed:
        return plain
    different = pc.dictionary_encode(plain)
    called = [None if name is None else renamed.get(name, name) for name in different.dictionary.to_pylist()]
    return pa.array(called, TYPE).take(different.indices)


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which labels are missing; none is."""
    return category.missing(feature, values)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return an `int64_list` of the class number."""
    numbers = pc.index_in(values, pa.array(feature.classes or (), TYPE))
    return integer_entry(name, np.asarray(numbers).astype(np.int64))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return the number of examples of each class by name."""
    return {"count": len(values), "classes": dict(sorted(category.counts_of(values).items()))}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the number of examples of each class, in the order of their numbers."""
    return {"count": state["count"], "classes": {name: state["classes"].get(name, 0) for name in feature.classes or ()}}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `ClassLabel`."""
    size = {"numClasses": str(len(feature.classes or ()))}
    return {"pythonClassName": "class_label_feature.ClassLabel", "classLabel": size}
