"""The search for near-duplicates: pairs that share a band, confirmed, and joined to groups.

A value is known by the 64-bit hash of its bytes, so that copies of an input are compared once. Bands are read one after
the other in parts of the hash space, and only the values of groups are kept: memory does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.records.config import NearHandling
from tasks.records.duplicates import Mask, neighbours, parts
from tasks.records.merging import Spills
from tasks.records.near import SIGNATURE, Compared
from tasks.records.sorting import CONTENT, ROW, hash_of, one_chunk
from tasks.sources.features import KEY, Feature, of_role

WINDOW = 1000
"""Values of a band with the same hash that each one is compared with, at most, in order of signature."""
MAX_NAMED = 20
"""Number of pairs that are listed; all are counted."""
TRIED = 1000
"""Pairs of copies of two values among which one of two splits is looked for."""


@dataclass(frozen=True)
class Row:
    """A row of a group."""

    spill: int
    number: int
    key: str
    split: int
    content: int
    hash: int
    """Of the row itself."""
    value: int
    """Hash of the compared input."""
    label: str
    """Its class; empty where there are none."""


Group = list[Row]
"""The rows of a group in order of key."""


@dataclass
class Near:
    """Examples whose input is similar to that of others, as a chain: of a group, each to one other at least."""

    column: str
    similarity: float
    handling: NearHandling
    groups: int = 0
    examples: int = 0
    """Number of examples of other content than the first by key of their group."""
    across_splits: int = 0
    """Number of groups that are in several splits, before they are handled."""
    pairs: list[dict[str, Any]] = field(default_factory=list)
    """A pair of each of the first groups, those across splits before others: `keys`, `splits` and `similarity`."""
    label_conflicts: int = 0
    """Number of groups with several labels."""
    conflicts: list[dict[str, list[str]]] = field(default_factory=list)
    """The first of them by key, with the first example of each label: `{"labels": [...], "keys": [...]}`."""
    dropped: dict[int, Mask] = field(default_factory=dict)
    """By spill, which of its rows are dropped; of spills that lose some."""

    def as_json(self) -> dict[str, Any]:
        names = ("column", "similarity", "handling", "groups", "examples", "across_splits", "pairs")
        return {name: getattr(self, name) for name in (*names, "label_conflicts", "conflicts")}


def find(
    spills: Spills, compared: Compared, features: Mapping[str, Feature], progress: Callable[[int, int], None]
) -> Near:
    """Find the groups of near-duplicates in all spills, and what becomes of their rows.

    With `drop` the rows of other content than the first by key are dropped, with `group` all rows move to the split of
    the one with the smallest hash.

    Args:
        progress: is called with how many bands of how many are done.
    """
    joined = _joined(spills, compared, progress)
    near = Near(compared.column, compared.similarity, compared.handling)
    moves, targets = list[Row](), list[int]()
    [label] = of_role(features, "label") or [None]
    for group in _groups(spills, compared, label, joined):
        others = [row for row in group if row.content != group[0].content]
        near.groups += 1
        near.examples += len(others)
        near.across_splits += len({row.split for row in group}) > 1
        near.pairs.append(_pair(spills, group, joined))
        if len(near.pairs) > 100 * MAX_NAMED:
            near.pairs = _first(near.pairs)
        first_of = {row.label: row.key for row in reversed(group)}
        if len(first_of) > 1:
            near.label_conflicts += 1
            if len(near.conflicts) < MAX_NAMED:  # groups come in order of key
                labels = sorted(first_of, key=lambda each: first_of[each])
                near.conflicts.append({"labels": labels, "keys": [first_of[each] for each in labels]})
        if compared.handling == "drop":
            for row in others:
                near.dropped.setdefault(row.spill, np.zeros(spills.rows(row.spill), bool))[row.number] = True
        if compared.handling == "group":
            moves += group
            targets += [min(group, key=lambda row: row.hash).split] * len(group)
    near.pairs = _first(near.pairs)
    places = np.array([(row.spill, row.number) for row in moves], np.int32).reshape(-1, 2)
    spills.move(places[:, 0], places[:, 1], np.array(targets, np.int64))
    return near


class _Joined:
    """Disjoint sets of values, with the similarities that joined them."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.joints: dict[int, list[tuple[int, int, float]]] = {}
        """By root, the joints of its set."""

    def root(self, value: int) -> int:
        """Return the value that stands for a set, which has this value alone where it is new."""
        self.parents.setdefault(value, value)
        while (parent := self.parents[value]) != value:
            self.parents[value] = value = self.parents[parent]
        return value

    def join(self, left: int, right: int, similarity: float) -> None:
        """Join the sets of two values."""
        low, high = sorted((self.root(left), self.root(right)))
        self.parents[high] = low
        joints = self.joints.pop(low, []) + self.joints.pop(high, [])
        self.joints[low] = [*joints, (left, right, similarity)]


def _joined(spills: Spills, compared: Compared, progress: Callable[[int, int], None]) -> _Joined:
    """Compare the values that share a hash in a band, and join those that are similar."""
    joined, name = _Joined(), hash_of(compared.column)
    for number, band in enumerate(compared.bands):
        for table in parts(spills, (band, name), {}):
            given = np.flatnonzero(table[band])
            order = given[np.lexsort((table[name][given], table[band][given]))]
            bands, values = table[band][order], table[name][order]
            new = np.concatenate(([True], (bands[1:] != bands[:-1]) | (values[1:] != values[:-1])))[: len(order)]
            order, bands = order[new], bands[new]
            for bucket in neighbours(bands[1:] == bands[:-1], order):
                _compare(spills, compared, joined, *(table[each][bucket] for each in ("spill", "row", name)))
        progress(number + 1, len(compared.bands))
    return joined


def _compare(
    spills: Spills, compared: Compared, joined: _Joined, spill: NDArray[Any], row: NDArray[Any], values: NDArray[Any]
) -> None:
    """Join those values of a bucket that are similar."""
    measure = compared.measure
    signatures = np.stack([_signatures(spills, each)[number] for each, number in zip(spill, row, strict=True)])
    if len(signatures) > WINDOW:
        order = np.lexsort(signatures.T[::-1])
        signatures, spill, row, values = signatures[order], spill[order], row[order], values[order]

    def read(place: int) -> Callable[[], Any]:
        return lambda: spills.value(int(spill[place]), compared.column, int(row[place]))

    for one in range(len(signatures) - 1):
        estimates = measure.estimates(signatures[one], signatures[one + 1 : one + 1 + WINDOW])
        near = np.flatnonzero(estimates >= compared.similarity - measure.SLACK)
        for other in (near + one + 1).tolist():
            left, right = int(values[one]), int(values[other])
            if joined.root(left) != joined.root(right):
                similarity = measure.similarity(float(estimates[other - one - 1]), read(one), read(other))
                if similarity >= compared.similarity:
                    joined.join(left, right, similarity)


def _signatures(spills: Spills, spill: int) -> NDArray[np.uint8]:
    column = one_chunk(spills.table(int(spill))[SIGNATURE])
    width = column.type.byte_width
    return np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, width)[column.offset : column.offset + len(column)]


def _groups(spills: Spills, compared: Compared, label: str | None, joined: _Joined) -> Iterator[Group]:
    """Yield the groups of rows, in order of their first row; a group has several contents."""
    members = {value for joints in joined.joints.values() for joint in joints for value in joint[:2]}
    members |= _repeated(spills, hash_of(compared.column))
    wanted, groups = np.array(sorted(members), np.uint64), dict[int, Group]()
    for spill in spills.numbers:
        values = spills.column(spill, hash_of(compared.column))
        for number in np.flatnonzero(np.isin(values, wanted)).tolist():
            key, content, own = (spills.value(spill, name, number) for name in (KEY, CONTENT[0], ROW))
            named = "" if label is None else str(spills.value(spill, label, number))
            row = Row(spill, number, key, spills.split(spill, number), content, own, int(values[number]), named)
            groups.setdefault(joined.root(row.value), []).append(row)
    in_order = [sorted(group, key=lambda row: row.key) for group in groups.values()]
    for group in sorted(in_order, key=lambda group: group[0].key):
        if len({row.content for row in group}) > 1:
            yield group


def _repeated(spills: Spills, name: str) -> set[int]:
    """Return the values that are in examples of several contents, as other inputs differ."""
    found: set[int] = set()
    for table in parts(spills, (name, CONTENT[0]), {}):
        order = np.lexsort((table[CONTENT[0]], table[name]))
        values, contents = table[name][order], table[CONTENT[0]][order]
        differs = (values[1:] == values[:-1]) & (contents[1:] != contents[:-1]) & (values[1:] != 0)
        found |= set(values[1:][differs].tolist())
    return found


def _pair(spills: Spills, group: Group, joined: _Joined) -> dict[str, Any]:
    """Return the pair of a group that is named: the most similar one, of two splits where there is one."""
    of_value: dict[int, Group] = {}
    first_of = {(row.value, row.content, row.split): row for row in reversed(group)}  # copies make no other pair
    for row in sorted(first_of.values(), key=lambda row: row.key):
        of_value.setdefault(row.value, []).append(row)
    joints = joined.joints.get(joined.root(group[0].value), [])
    candidates = [(*joint[:2], joint[2]) for joint in joints] + [(value, value, 1.0) for value in of_value]
    pairs = []
    for left, right, similarity in candidates:
        of_two = islice(product(of_value[left], of_value[right]), TRIED)
        apart = [(one, other) for one, other in of_two if one.content != other.content]
        for one, other in sorted(apart, key=lambda pair: pair[0].split == pair[1].split)[:1]:
            first, second = sorted((one, other), key=lambda row: row.key)
            pairs.append((first.split == second.split, -similarity, first.key, second.key, first, second))
    _, negative, *_, first, second = min(pairs, key=lambda pair: pair[:4])
    splits = [spills.splits[row.split] for row in (first, second)]
    return {"keys": [first.key, second.key], "splits": splits, "similarity": round(-negative, 4)}


def _first(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(pairs, key=lambda pair: (len(set(pair["splits"])) == 1, pair["keys"]))[:MAX_NAMED]
