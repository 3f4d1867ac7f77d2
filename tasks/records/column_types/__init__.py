"""Types of columns: a class a type, with all that is known of its values in records, and of their statistics.

Values are arrow arrays without nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tasks.config.kinds import import_kinds
from tasks.reader.formats import Unreadable, reader_of
from tasks.sources.encoding import Encoded
from tasks.sources.features import Feature

State = dict[str, Any]
"""Mergeable statistics of a feature; JSON.

Integers (counts, pixels, bytes) are summed exactly and floats by Chan's method in order of shard, so that the result
does not depend on which attempt wrote which shard.
"""
States = dict[str, State]
"""The state of each feature, by name."""

Features = Mapping[str, Feature]

TFDS = "tensorflow_datasets.core.features"
"""The package whose classes the `connector`s name."""

TYPES: dict[str, type[ColumnType]] = {}
"""The types by the kind of feature."""


@dataclass(frozen=True)
class Typed:
    """Values of a column as the type of its feature."""

    values: pa.Array
    """Without nulls; of a row in `bad` any value."""

    bad: Mapping[int, str] = field(default_factory=dict)
    """By row, the reason why its value does not fit."""

    measured: Mapping[str, pa.Array] = field(default_factory=dict)
    """What statistics need and only the raw value shows, by short name."""

    exact: Sequence[Encoded] = ()
    """The values as they were read, where the type of the feature holds less: copies are found by them."""


class ColumnType:
    """What is known of the values of a feature."""

    kinds: ClassVar[tuple[str, ...]]
    """The kinds of features that have it."""

    def __init__(self, feature: Feature) -> None:
        self.feature = feature

    def __init_subclass__(cls) -> None:
        TYPES.update(dict.fromkeys(cls.kinds, cls))

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Cast the values of a source to the feature's type; images have so many pixels at most."""
        raise NotImplementedError

    def missing(self, values: pa.Array) -> pa.Array:
        """Return which values are missing, bool."""
        raise NotImplementedError

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return the feature's entry in each `tf.train.Example`, in parts to be joined."""
        raise NotImplementedError

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return the mergeable statistics of values."""
        raise NotImplementedError

    def merge(self, left: State, right: State) -> State:
        """Merge the statistics of two groups of values."""
        return merge_by_key(left, right)

    def summary(self, state: State) -> dict[str, Any]:
        """Return a state as it is in the manifest."""
        raise NotImplementedError

    def connector(self) -> dict[str, Any]:
        """Return the description by which tensorflow-datasets reads the feature."""
        raise NotImplementedError


def merge_by_key(left: State, right: State) -> State:
    """Merge two states: `min` and `max` are extremes, all else is summed, in lists and mappings too."""
    total: State = {}
    for key in sorted(left.keys() | right.keys()):
        if key not in left or key not in right:
            total[key] = left.get(key, right.get(key))
        elif isinstance(left[key], dict):
            total[key] = merge_by_key(left[key], right[key])
        elif isinstance(left[key], list):
            total[key] = [a + b for a, b in zip(left[key], right[key], strict=True)]
        else:
            total[key] = {"min": min, "max": max}.get(key, lambda a, b: a + b)(left[key], right[key])
    return total


def column_type(feature: Feature) -> ColumnType:
    """Return the type of a feature's values."""
    return TYPES[feature.kind](feature)


def states_of(features: Features, columns: Mapping[str, pa.Array], measured: Mapping[str, Any]) -> States:
    """Return the state of each feature over rows.

    Args:
        columns: the typed values by feature.
        measured: what was measured of the raw values, by feature and short name.
    """
    return {
        name: column_type(feature).state(columns[name], measured.get(name, {})) for name, feature in features.items()
    }


def merged(features: Features, states: Iterable[States]) -> States:
    """Merge the states of shards or splits, in their order."""

    def merge(left: States, right: States) -> States:
        if not left or not right:
            return left or right
        return {name: column_type(feature).merge(left[name], right[name]) for name, feature in features.items()}

    return reduce(merge, states, {})


def summary(features: Features, states: States) -> dict[str, Any]:
    """Convert states for the manifest: means and standard deviations in place of sums, classes by name."""
    return {
        name: {"kind": feature.kind, **column_type(feature).summary(states[name])}
        for name, feature in features.items()
        if name in states
    }


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Return the values of raw cells as the type of a feature, and the rows that do not fit."""
    read, bad = raw, dict[int, str]()
    if feature.format is not None:
        read, bad = written(feature.format, raw)
    cast = column_type(feature).typed(read, max_pixels)
    return Typed(cast.values, {**cast.bad, **bad}, cast.measured, cast.exact)


def written(state: Mapping[str, Any], raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return cells as plain ones, and the rows that are of another form; each different cell is read once.

    Args:
        state: of a form, as `tasks.reader.formats.of_state` takes it.
    """
    if pt.is_list(raw.type) or pt.is_large_list(raw.type):  # of a source that has lists
        return raw, {}
    read, cells = reader_of(state), pc.dictionary_encode(raw)
    plain, refused = [], dict[int, str]()
    for number, value in enumerate(cells.dictionary.to_pylist()):
        try:
            plain.append(read(value))
        except Unreadable as error:
            plain.append(None)
            refused[number] = f"{value!r} {error}"
    of_lists = state["kind"] == "lists"
    values = pa.array(plain, pa.list_(pa.string()) if of_lists else None, from_pandas=False)
    numbers = cells.indices
    bad = np.flatnonzero(np.isin(numbers.fill_null(-1).to_numpy(zero_copy_only=False), list(refused)))
    return values.take(numbers), {int(row): refused[numbers[int(row)].as_py()] for row in bad}


import_kinds(__name__, __path__)
