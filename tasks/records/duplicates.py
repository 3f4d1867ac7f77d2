"""Examples with identical content, conflicts of their labels, and keys that occur twice.

Rows are compared in parts of the hash space (`tasks.records.parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.records.merging import Runs
from tasks.records.parts import Dropped, Mask, neighbours, parts
from tasks.records.sorting import CONTENT, PLACE
from tasks.sources.features import KEY, Feature, of_role
from tasks.sources.hashes import Handling

MAX_NAMED = 20
"""Number of label conflicts that are listed; all are counted."""


@dataclass
class Copies:
    """The examples whose content occurs more than once."""

    handling: Handling
    contents: int = 0
    """Number of repeated contents."""
    examples: int = 0
    """Number of copies except the first of each content."""
    across_splits: int = 0
    """Number of contents that are in several splits."""
    label_conflicts: int = 0
    """Number of contents with several labels."""
    conflicts: list[dict[str, list[str]]] = field(default_factory=list)
    """The first of them by key: `{"labels": [...], "keys": [...]}`."""
    dropped: dict[int, Mask] = field(default_factory=dict)
    """By run, which of its rows are dropped; of runs that lose some."""

    def as_json(self) -> dict[str, Any]:
        names = ("handling", "contents", "examples", "across_splits", "label_conflicts", "conflicts")
        return {name: getattr(self, name) for name in names}


def find(runs: Runs, features: Mapping[str, Feature], handling: Handling, dropped: Dropped) -> Copies:
    """Find the rows of identical content in all runs; with `drop` all but the first by key are dropped.

    Args:
        dropped: rows that are left out for another reason.
    """
    copies = Copies(handling)
    for table in parts(runs, CONTENT, dropped):
        rows = [_Row.read(runs, features, table, index) for index in equal(table, CONTENT)]
        del table  # before the next one is read
        for group in rows:
            _count(copies, sorted(group, key=lambda row: row.key))
            if handling == "drop":
                for row in sorted(group, key=lambda row: row.key)[1:]:
                    mask = copies.dropped.setdefault(row.run, np.zeros(runs.rows(row.run), bool))
                    mask[row.number] = True
    copies.conflicts = sorted(copies.conflicts, key=lambda conflict: conflict["keys"])[:MAX_NAMED]
    return copies


def check_keys(runs: Runs) -> None:
    """Raise `Failed` where two rows have the same key."""
    for table in parts(runs, (PLACE,), {}):
        for group in equal(table, (PLACE,)):
            keys = [runs.value(int(table["run"][index]), KEY, int(table["row"][index])) for index in group]
            if len(set(keys)) < len(keys):
                twice = next(key for key in keys if keys.count(key) > 1)
                rule = "occurs twice, and keys must be unique"
                raise Failed("source.key", twice, rule, "name another column, or correct the data")
        del table


def equal(table: Mapping[str, NDArray[Any]], columns: Sequence[str]) -> list[NDArray[np.int64]]:
    """Return the rows of a part that are equal in these columns, as lists of their indices."""
    order = np.lexsort([table[name] for name in reversed(columns)])
    same = np.ones(len(order) - 1 if len(order) else 0, bool)
    for name in columns:
        values = table[name][order]
        same &= values[1:] == values[:-1]
    return list(neighbours(same, order))


@dataclass(frozen=True)
class _Row:
    run: int
    number: int
    split: int
    key: str
    label: str

    @classmethod
    def read(
        cls, runs: Runs, features: Mapping[str, Feature], table: Mapping[str, NDArray[Any]], group: NDArray[np.int64]
    ) -> list[_Row]:
        """Read the rows of a group."""
        predicted = [name for role in ("label", "target") for name in of_role(dict(features), role)]
        rows = []
        for index in group:
            run, number = int(table["run"][index]), int(table["row"][index])
            values = [str(runs.value(run, name, number)) for name in predicted]
            rows.append(cls(run, number, runs.split(run, number), runs.value(run, KEY, number), ", ".join(values)))
        return rows


def _count(copies: Copies, group: list[_Row]) -> None:
    """Count a group of rows of identical content, in order of key."""
    copies.contents += 1
    copies.examples += len(group) - 1
    copies.across_splits += len({row.split for row in group}) > 1
    if len({row.label for row in group}) > 1:
        copies.label_conflicts += 1
        copies.conflicts.append({"labels": [row.label for row in group], "keys": [row.key for row in group]})
        if len(copies.conflicts) > 100 * MAX_NAMED:
            copies.conflicts = sorted(copies.conflicts, key=lambda conflict: conflict["keys"])[:MAX_NAMED]
