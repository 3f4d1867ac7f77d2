"""Kinds of features: a module per `Feature.kind`, with all that is known of its values in records.

A module has the functions of `Kind`. Values are arrow arrays without nulls, of the type `TYPE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import pyarrow as pa

from tasks.sources.encoding import Encoded
from tasks.sources.features import Feature

State = dict[str, Any]
"""Mergeable statistics of a feature; JSON."""

KINDS = {
    "key": "tasks.records.kinds.text",
    "text": "tasks.records.kinds.text",
    "words": "tasks.records.kinds.words",
    "label": "tasks.records.kinds.label",
    "tags": "tasks.records.kinds.tags",
    "category": "tasks.records.kinds.category",
    "number": "tasks.records.kinds.number",
    "time": "tasks.records.kinds.time",
    "image": "tasks.records.kinds.image",
    "audio": "tasks.records.kinds.audio",
}
"""The module of each kind, imported on use."""


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


class Kind(Protocol):
    """The functions of a module of `KINDS`."""

    def typed(self, feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
        """Cast the values of a source to the feature's type."""
        ...

    def missing(self, feature: Feature, values: pa.Array) -> pa.Array:
        """Return which values are missing, bool."""
        ...

    def entry(self, name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
        """Return the feature's entry in each `tf.train.Example`, in parts to be joined."""
        ...

    def state(self, feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return the mergeable statistics of values."""
        ...

    def merge(self, left: State, right: State) -> State:
        """Merge the statistics of two groups of values."""
        ...

    def summary(self, feature: Feature, state: State) -> dict[str, Any]:
        """Return a state as it is in the manifest."""
        ...

    def connector(self, feature: Feature) -> dict[str, Any]:
        """Return the description by which tensorflow-datasets reads the feature."""
        ...


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


def kind_of(feature: Feature) -> Kind:
    """Return the module of a feature's kind."""
    return cast(Kind, import_module(KINDS[feature.kind]))
