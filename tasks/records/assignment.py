"""The split of each row: by a keyed hash, by the source's own splits, or by time.

The hash is of the row's group; without one of its named key, or of the whole row as the source has it. So neither the
choice of columns nor their types move a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.errors import Refused
from tasks.reader.values import MISSING
from tasks.records.column_types.categories import Category, counts_of
from tasks.records.column_types.numbers import microseconds
from tasks.records.config import SPLITS, USUAL_NAMES, RecordsConfig
from tasks.sources.encoding import values_of
from tasks.sources.features import Feature, of_role
from tasks.sources.hashes import Hashes, digests, split_numbers

UNASSIGNED = -1

COLUMN = Feature("category", "string")
"""The type of a column whose values are compared as texts: of groups, keys and splits."""

LONGEST = 400
"""Digits before or after the point of a number that is written in one way only, at most."""


class Assignment:
    """Assigns rows to splits; `names` are those of the splits, sorted."""

    def __init__(self, config: RecordsConfig, features: dict[str, Feature], official: tuple[str, ...]) -> None:
        """Prepare to assign rows with these features.

        Args:
            official: names of the splits that the source has; the values of a column are not known yet.

        Raises:
            Refused: `records.splits` needs something that the source does not have.
        """
        self._config, self.names = config, config.names
        self._groups = of_role(features, "group")
        self._time = next(iter(of_role(features, "time")), None)
        self._shares: dict[str, float] = {}
        self._official: dict[str, str] = {}
        if isinstance(config.splits, dict):
            self._shares = config.splits
        elif config.splits == "time":
            if self._time is None:
                rule = "a split by time needs the column source.time"
                raise Refused("records.splits", "time", rule, "name it, or give shares in records.splits")
        else:
            self._read_official(official, bool(of_role(features, "split")))

    def _read_official(self, official: tuple[str, ...], column: bool) -> None:
        if not official and not column:
            rule, remedy = "the source has no splits of its own", "give shares in records.splits, or name source.split"
            raise Refused("records.splits", "official", rule, remedy)
        given = {name: split for split, names in self._config.official.items() for name in names}
        self._official = given or USUAL_NAMES
        if unknown := [name for name in official if self._split_of(name) is None]:
            rule = f"each split of the source ({', '.join(official)}) becomes one of {', '.join(SPLITS)}"
            remedy = f"name it in records.official, as in {{train: [{unknown[0]}]}}, or leave it out of the source"
            raise Refused("records.splits", f"official, and the source has {unknown[0]}", rule, remedy)
        # The values of a column are not known yet, but perhaps what becomes of them.
        splits = {self._split_of(name) for name in official} if official else set(self._config.official)
        if splits and "validation" not in splits:
            self._shares = self._carved

    @property
    def _carved(self) -> dict[str, float]:
        share = self._config.validation_share
        return {"train": 1 - share, "validation": share}

    def _split_of(self, name: str) -> str | None:
        return self._official.get(name if self._config.official else name.lower())

    def numbers(
        self, table: pa.Table, raw: Mapping[str, pa.Array], rows: Hashes, official: pa.Array | None, bad: dict[int, str]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of each row's split among `names`; `UNASSIGNED`, and a reason in `bad`, where it has none.

        Args:
            table: rows of typed columns.
            raw: the columns as the source has them.
            rows: a hash of each row.
            official: the source's split of each row.

        Returns:
            The numbers, and whether the hash of the row itself decided: copies of its inputs may share a split.
        """
        if self._config.splits == "time":
            numbers = self._by_time(np.asarray(table[self._time]).astype(np.int64))
            return numbers, np.zeros(len(numbers), bool)
        hashes, alone = self.hashes(raw, rows)
        if self._config.splits == "official":
            assert official is not None
            numbers, carved = self._by_name(official, hashes, bad)
            return numbers, carved & alone
        return split_numbers(hashes, self._shares, self._config.split_seed), alone

    def hashes(self, raw: Mapping[str, pa.Array], rows: Hashes) -> tuple[Hashes, NDArray[np.bool_]]:
        """Return what decides the split of each row, and whether it is the row itself and no group."""
        name = next(iter(self._groups), None)
        if name is None or pt.is_nested(raw[name].type):  # a row with a list for a group is bad
            return rows, np.ones(len(rows), bool)
        groups = Category(COLUMN).typed(raw[name]).values.dictionary_encode()
        words = values_of(groups.dictionary.cast(pa.large_binary()))
        if self._groups[name].kind == "number":
            words = [_number(word) for word in words]
        numbers = np.asarray(groups.indices)
        alone = np.array([word == b"" for word in words], bool)[numbers]
        return np.where(alone, rows, digests(words)[:, 0][numbers]), alone

    def _by_time(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        begin, end = map(microseconds, self._config.times)
        numbers = {name: self.names.index(name) for name in SPLITS}
        later = np.where(times < end, numbers["validation"], numbers["test"])
        return np.where(times < begin, numbers["train"], later)

    def _by_name(
        self, official: pa.Array, hashes: Hashes, bad: dict[int, str]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the split of each row by the source's, and which rows a hash has divided further."""
        names = counts_of(official)
        numbers = np.full(len(official), UNASSIGNED, np.int64)
        for name in names:
            rows = np.asarray(pa.compute.equal(official, name))
            split = self._split_of(name)
            if split is None:
                known = ", ".join(dict.fromkeys(self._official))
                for row in np.flatnonzero(rows):
                    bad.setdefault(int(row), f"split {name!r} is none of {known} (records.official)")
            else:
                numbers[rows] = self.names.index(split)
        train = (numbers == self.names.index("train")) & bool(self._shares)
        if train.any():
            carved = [self.names.index(split) for split in sorted(self._shares)]
            chosen = split_numbers(hashes, self._shares, self._config.split_seed)
            numbers = np.where(train, np.array(carved)[chosen], numbers)
        return numbers, train


def _number(word: bytes) -> bytes:
    """Return a number in one spelling, `7` for `7.0` and `07`; nothing for one that is missing."""
    if word.decode() in MISSING:
        return b""
    try:
        value = Decimal(word.decode().strip())
    except InvalidOperation:  # of a row that is bad
        return word
    if not value.is_finite():
        return b""
    if not value or abs(value.adjusted()) > LONGEST:
        return word if value else b"0"
    whole, _, rest = f"{value:f}".partition(".")
    return f"{whole}.{rest}".rstrip("0").rstrip(".").encode() if rest else whole.encode()


def usual(names: Iterable[str]) -> bool:
    """Return whether these names are those of splits, by which a folder per split is recognised."""
    return {name.lower() for name in names} <= USUAL_NAMES.keys()
