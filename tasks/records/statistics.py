"""Statistics of a split, computed while it is written: a mergeable state per shard, as JSON.

Integers (counts, pixels, bytes) are summed exactly and floats by Chan's method in order of shard, so that the result
does not depend on which attempt wrote which shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa

from tasks.records.column_types import State, column_type
from tasks.sources.features import Feature

States = dict[str, State]
"""The state of each feature, by name."""


Features = Mapping[str, Feature]


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
