"""Copies: examples with identical content or inputs, conflicts of their labels, and keys that occur twice.

Rows are compared in parts of the hash space.

Hashes are of whole rows, or of named keys, so that copies with other labels, keys or ignored columns have splits of
their own at first. When a new copy has a smaller hash than all others, it takes them along; no other example moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.records.merging import Spills
from tasks.records.profile import TEST, TRAIN
from tasks.records.sorting import CONTENT, PLACE, ROW, SPLIT, TIED, hash_of, hashed
from tasks.sources.features import KEY, PREDICTED, Feature, of_role
from tasks.sources.hashes import SPACE, Handling

PART = 1 << 20
"""Rows that are compared at once, about."""

Mask = NDArray[np.bool_]
Dropped = Mapping[int, Mask]
"""By spill, which of its rows are dropped; of spills that lose some."""


def parts(spills: Spills, columns: tuple[str, ...], dropped: Dropped) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the rows whose first column is in a part of the hash space: columns, `spill` and `row`."""
    number = max(1, -(-spills.total // PART))
    for part in range(number):
        low, high = np.uint64(part * SPACE // number), np.uint64((part + 1) * SPACE // number - 1)
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in (*columns, "spill", "row")}
        for spill in spills.numbers:
            values = spills.column(spill, columns[0])
            within = (values >= low) & (values <= high)
            rows = np.flatnonzero(within & ~dropped[spill] if spill in dropped else within)
            for name in columns:
                found[name].append(spills.column(spill, name)[rows])
            found["spill"].append(np.full(len(rows), spill, np.int32))
            found["row"].append(rows.astype(np.int32))
        yield {name: np.concatenate(found.pop(name)) for name in list(found)}  # without keeping both


def neighbours(same: Mask, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of equal neighbours in an order; `same` says which rows equal the one before them."""
    changes = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
    for begin, end in zip(np.flatnonzero(changes == 1), np.flatnonzero(changes == -1), strict=True):
        yield order[begin : end + 1]


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
    """By spill, which of its rows are dropped; of spills that lose some."""

    def as_json(self) -> dict[str, Any]:
        names = ("handling", "contents", "examples", "across_splits", "label_conflicts", "conflicts")
        return {name: getattr(self, name) for name in names}


def find(spills: Spills, features: Mapping[str, Feature], handling: Handling, dropped: Dropped) -> Copies:
    """Find the rows of identical content in all spills; with `drop` all but the first by key are dropped.

    Args:
        dropped: rows that are left out for another reason.
    """
    copies = Copies(handling)
    for table in parts(spills, CONTENT, dropped):
        groups = [_Row.read(spills, features, table, index) for index in equal(table, CONTENT)]
        del table  # before the next one is read
        for group in groups:
            _count(copies, group)
            if handling == "drop":
                for row in group[1:]:
                    mask = copies.dropped.setdefault(row.spill, np.zeros(spills.rows(row.spill), bool))
                    mask[row.number] = True
    copies.conflicts = sorted(copies.conflicts, key=lambda conflict: conflict["keys"])[:MAX_NAMED]
    return copies


def check_keys(spills: Spills) -> None:
    """Raise `Failed` where two rows have the same key."""
    for table in parts(spills, (PLACE,), {}):
        for group in equal(table, (PLACE,)):
            keys = [spills.value(int(table["spill"][index]), KEY, int(table["row"][index])) for index in group]
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
    spill: int
    number: int
    split: int
    key: str
    label: str

    @classmethod
    def read(
        cls,
        spills: Spills,
        features: Mapping[str, Feature],
        table: Mapping[str, NDArray[Any]],
        group: NDArray[np.int64],
    ) -> list[_Row]:
        """Read the rows of a group, in order of key."""
        predicted = [name for role in PREDICTED for name in of_role(features, role)]
        rows = []
        for index in group:
            spill, number = int(table["spill"][index]), int(table["row"][index])
            values = [str(spills.value(spill, name, number)) for name in predicted]
            rows.append(
                cls(spill, number, spills.split(spill, number), spills.value(spill, KEY, number), ", ".join(values))
            )
        return sorted(rows, key=lambda row: row.key)


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


def tie(spills: Spills) -> None:
    """Move copies to the split of the one with the smallest hash, among those whose own hash decided."""
    for table in parts(spills, (*CONTENT, ROW, SPLIT, TIED), {}):
        rows = np.flatnonzero(table[TIED])
        order = rows[np.lexsort([table[name][rows] for name in (ROW, CONTENT[1], CONTENT[0])])]
        splits = table[SPLIT][order]
        targets = splits[_first_of_equal(table[CONTENT[0]][order], table[CONTENT[1]][order])]
        moved = np.flatnonzero(targets != splits)
        spills.move(table["spill"][order[moved]], table["row"][order[moved]], targets[moved])
        del table  # before the next one is read


def _first_of_equal(*columns: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each row of sorted columns the first row that is equal."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))


def find_shared(spills: Spills, features: Mapping[str, Feature], dropped: Dropped) -> dict[str, Any]:
    """Return what of each text, image or sound is in train and in test, by input; of a source with several inputs.

    Of each: `contents`, their number; `examples`, those of test that have one of them; and the first `keys`, of an
    example of train and one of test.
    """
    if not {TRAIN, TEST} <= set(spills.splits):
        return {}
    found = {name: _shared(spills, name, dropped) for name in hashed(features)}
    return {name: shared for name, shared in found.items() if shared["contents"]}


def _shared(spills: Spills, name: str, dropped: Dropped) -> dict[str, Any]:
    train, test = (spills.splits.index(split) for split in (TRAIN, TEST))
    contents, examples, keys = 0, 0, list[list[str]]()
    for table in parts(spills, (hash_of(name), SPLIT), dropped):
        values, splits = table[hash_of(name)], table[SPLIT]
        both = np.intersect1d(values[splits == train], values[splits == test])
        both = both[both != 0]
        contents += len(both)
        examples += int(np.isin(values[splits == test], both).sum())
        for value in both[:MAX_NAMED]:
            rows = [np.flatnonzero((values == value) & (splits == split)) for split in (train, test)]
            keys.append([min(_key(spills, table, row) for row in of_split[:MAX_NAMED]) for of_split in rows])
        del table, values, splits  # before the next one is read
    return {"contents": contents, "examples": examples, "keys": sorted(keys)[:MAX_NAMED]}


def _key(spills: Spills, table: Mapping[str, Any], row: int) -> str:
    key: str = spills.value(int(table["spill"][row]), KEY, int(table["row"][row]))
    return key


def suspicions(shared: Mapping[str, Any], features: Mapping[str, Feature]) -> Iterator[str]:
    """Yield in words what is in train and in test."""
    for name, found in shared.items():
        kind = {"audio": "sound"}.get(features[name].kind, features[name].kind)
        plural = "s are" if found["contents"] > 1 else " is"
        of_test = f"{found['examples']:,} example{'s' * (found['examples'] > 1)} of test"
        train, test = found["keys"][0]
        yield (
            f"{name}: {found['contents']:,} {kind}{plural} in train and, with other values beside, in {of_test} "
            f"({train} and {test}); a score on test may be too high"
        )
