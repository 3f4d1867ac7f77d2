"""Types of columns: a class a type, with all that is known of its values in records.

Values are arrow arrays without nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from tasks.config.kinds import import_kinds
from tasks.sources.encoding import Encoded
from tasks.sources.features import Feature

State = dict[str, Any]
"""Mergeable statistics of a feature; JSON."""

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


import_kinds(__name__, __path__)
