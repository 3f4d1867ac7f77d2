"""Categories, labels, and tags of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.reader.values import BLANKS, WHOLE
from tasks.records.column_types import TFDS, State, Typed
from tasks.records.column_types.texts import Text, Words, lengths_of, sequence
from tasks.sources.encoding import Encoded, integer_entry, integer_list_entry
from tasks.sources.features import OTHER, Feature, of_role

MAX_VALUES = 10_000
"""Different values that are counted one by one; of more only the number is known."""
MAX_BYTES = 1024
"""Length of a value at most; a longer one is a text."""
TOP = 20
"""Most frequent values in a summary."""

FRACTION = r"^([+-]?[0-9]+\.[0-9]*[1-9])0+$"
"""A number with zeros at the end of its fraction."""

TAG = Feature("category", "string")
"""The type of a tag."""
NUMBER = r"^(0|[1-9]\d{0,8})$"


class Category(Text):
    """Categories: short strings of which there are few; a missing one is empty."""

    kinds = ("category",)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept strings, without blanks at their ends, integers, booleans (`true`), numbers by their shortest form.

        What is written `1.0` is `1`, as one missing value makes floats of a column of integers; `3.10` stays `3.10`.
        """
        if pa.types.is_floating(raw.type):
            # What was an integer before a missing value made a float of its column is an integer again.
            numbers = raw.to_numpy(zero_copy_only=False).astype(np.float64)
            whole = np.isfinite(numbers) & (np.trunc(numbers) == numbers) & (np.abs(numbers) < 2**53)
            integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(pa.string())
            shortest = pc.if_else(pa.array(np.isnan(numbers)), "", pa.array(numbers).cast(pa.string()))
            raw = pc.if_else(pa.array(whole), integers, shortest)
        cast = super().typed(raw)
        values = plain(cast.values.cast(pa.string()))
        long = np.flatnonzero(np.asarray(pc.greater(pc.binary_length(values), MAX_BYTES)))
        reasons = {int(row): f"a value of more than {MAX_BYTES} bytes is a text, not a category" for row in long}
        return Typed(values, {**reasons, **cast.bad})

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, missing values, and how often each value occurs."""
        counts = counts_of(values)
        return {"count": len(values), "missing": counts.pop("", 0), "values": limited(counts)}

    def merge(self, left: State, right: State) -> State:
        """Merge two states; too many different values stay too many."""
        both = {key: left[key] + right[key] for key in ("count", "missing")}
        if left["values"] is None or right["values"] is None:
            return {**both, "values": None}
        counts = dict(left["values"])
        for value, count in right["values"].items():
            counts[value] = counts.get(value, 0) + count
        return {**both, "values": limited(counts)}

    def summary(self, state: State) -> dict[str, Any]:
        """Return count, missing, the number of different values (None: more than `MAX_VALUES`), the most frequent."""
        counts = state["values"]
        most = sorted((counts or {}).items(), key=lambda item: (-item[1], item[0]))[:TOP]
        figures = {"count": state["count"], "missing": state["missing"]}
        return {**figures, "distinct": None if counts is None else len(counts), "top": [list(item) for item in most]}


class Label(Text):
    """Labels: the name of a class while examples are sorted, its number in records."""

    kinds = ("label",)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept what a category is; a missing label, and one that is not among known classes, is bad."""
        cast = Category(self.feature).typed(raw)
        values = plain_classes(cast.values, self.feature.renamed)
        missing = {int(row): "missing" for row in np.flatnonzero(np.asarray(self.missing(values)))}
        values, unknown = _among(values, self.feature.classes)
        return Typed(values, {**unknown, **missing, **cast.bad})

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return an `int64_list` of the class number."""
        numbers = pc.index_in(values, pa.array(self.feature.classes or (), pa.string()))
        return integer_entry(name, np.asarray(numbers).astype(np.int64))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return the number of examples of each class by name."""
        return {"count": len(values), "classes": dict(sorted(counts_of(values).items()))}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the number of examples of each class, in the order of their numbers."""
        return _in_order(self.feature, state)

    def connector(self) -> dict[str, Any]:
        """Describe a `ClassLabel`."""
        return _class_label(self.feature, "")


class Tags(Words):
    """A label for each word of a list; the names of classes while examples are sorted, their numbers in records."""

    kinds = ("tags",)
    noun: ClassVar[str] = "tags"

    def items(self, flat: pa.Array) -> Typed:
        """Accept what a category is; a missing tag, and one that is not among known classes, is bad.

        Where classes are known and none is called by a number, an integer is the number of a class, from 0.
        """
        category = Category(TAG)
        cast = category.typed(flat)
        gone = np.flatnonzero(np.asarray(category.missing(cast.values)))
        values, unknown = _among(_named(cast.values, self.feature.classes), self.feature.classes)
        return Typed(values, {**unknown, **dict.fromkeys(gone.tolist(), "missing"), **cast.bad})

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept lists of tags; a missing list is bad."""
        lists = super().typed(raw)
        absent = np.flatnonzero(lengths_of(lists.values) == 0)
        return Typed(lists.values, {**dict.fromkeys(absent.tolist(), "missing"), **lists.bad})

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return an `int64_list` with the class number of each tag."""
        numbers = pc.index_in(values.flatten(), pa.array(self.feature.classes or (), pa.string()))
        return integer_list_entry(name, np.asarray(numbers).astype(np.int64), lengths_of(values))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return the number of lists, and of tags of each class by name."""
        return {"count": len(values), "classes": dict(sorted(counts_of(values.flatten()).items()))}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the number of lists, and of tags of each class in the order of their numbers."""
        return _in_order(self.feature, state)

    def connector(self) -> dict[str, Any]:
        """Describe a `Sequence` of `ClassLabel`."""
        return sequence(_class_label(self.feature, f"{TFDS}."))


def plain(values: pa.Array) -> pa.Array:
    """Return texts without blanks at their ends, and whole numbers without a fraction."""
    return pc.replace_substring_regex(pc.utf8_trim(values, BLANKS), WHOLE, r"\1")


def plain_classes(names: pa.Array, renamed: Mapping[str, str] | None = None) -> pa.Array:
    """Return the names of classes without blanks at the ends, and of numbers the shortest: `1` for `1.0`.

    Args:
        renamed: classes by the names that the source has for them.
    """
    short = pc.replace_substring_regex(plain(names.cast(pa.string())), FRACTION, r"\1")
    if not renamed:
        return short
    different = pc.dictionary_encode(short)
    called = [None if name is None else renamed.get(name, name) for name in different.dictionary.to_pylist()]
    return pa.array(called, pa.string()).take(different.indices)


def counts_of(values: pa.Array) -> dict[str, int]:
    """Return how often each value occurs."""
    counted = pc.value_counts(values)
    return dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def limited(counts: dict[str, int]) -> dict[str, int] | None:
    """Return counts by value; None of too many."""
    return dict(sorted(counts.items())) if len(counts) <= MAX_VALUES else None


def _in_order(feature: Feature, state: State) -> dict[str, Any]:
    """Return a number, and how many there are of each class, in the order of the classes' numbers."""
    return {"count": state["count"], "classes": {name: state["classes"].get(name, 0) for name in feature.classes or ()}}


def _class_label(feature: Feature, package: str) -> dict[str, Any]:
    """Return the description of a `ClassLabel`."""
    size = {"numClasses": str(len(feature.classes or ()))}
    return {"pythonClassName": f"{package}class_label_feature.ClassLabel", "classLabel": size}


def _named(values: pa.Array, classes: tuple[str, ...] | None) -> pa.Array:
    """Return tags with the names of classes in place of their numbers, where none is called by a number."""
    names = pa.array(classes or (), pa.string())
    if classes is None or pc.any(pc.match_substring_regex(names, NUMBER)).as_py():
        return values
    numbers = pc.if_else(pc.match_substring_regex(values, NUMBER), values, None).cast(pa.int64())
    within = pc.if_else(pc.less(numbers, len(classes) - (classes[-1] == OTHER)), numbers, None)
    return pc.coalesce(names.take(within), values)


def _among(values: pa.Array, classes: tuple[str, ...] | None) -> tuple[pa.Array, dict[int, str]]:
    """Return names as those of classes, and the reasons of those that are none; any name is known for None."""
    if classes is None:
        return values, {}
    known = pc.is_in(values, pa.array(classes, pa.string()))
    if OTHER in classes:
        return pc.if_else(known, values, OTHER), {}
    others = np.flatnonzero(~np.asarray(known))
    return values, {int(row): f"{values[int(row)].as_py()!r} is none of source.classes" for row in others}


def unequal(features: Mapping[str, Feature], table: pa.Table) -> dict[int, str]:
    """Return by row why its tags do not belong to its words: there must be one for each."""
    bad: dict[int, str] = {}
    for name, feature in of_role(features, "label").items():
        if feature.kind != "tags":
            continue
        tags = lengths_of(table[name].combine_chunks())
        for words in (each for each, other in sorted(features.items()) if other.kind == "words"):
            count = lengths_of(table[words].combine_chunks())
            for row in np.flatnonzero(tags != count).tolist():
                bad.setdefault(row, f"{tags[row]} tags in {name} for {count[row]} words in {words}")
    return bad
