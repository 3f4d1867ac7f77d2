"""The first pass of a conversion: partitions of a source as sorted spills of checked, typed rows.

A spill is an Arrow file with rows of a partition in the order of split and place, so that a shard is a merge of spills.
It is a piece of the staging: a kill costs the spills that were under way. A partition of more than `SPILL_BYTES`, as of
a source that can only be read from its beginning, has several spills: a process holds one spill at a time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.records import column_types
from tasks.records.assignment import COLUMN, UNASSIGNED, Assignment
from tasks.records.column_types import column_type
from tasks.records.column_types.categories import Category, unequal
from tasks.records.config import RecordsConfig
from tasks.records.near import ASIDE, compared
from tasks.records.rules import Rules
from tasks.sources import Partition, Rows, Source
from tasks.sources.encoding import Encoded, join, values_of
from tasks.sources.features import CLASSED, KEY, KEY_FEATURE, Feature, of_role
from tasks.sources.hashes import digests, hashes_of, places
from tasks.sources.table_files import hashes_of_rows
from tasks.store.staging import TEMPORARY, Staging

SPILL_VERSION = 5
"""Of the columns of a spill; those of an earlier attempt with other columns are not used."""
SPILLS, MOVED, QUARANTINE = f"{TEMPORARY}spills", f"{TEMPORARY}moved", "quarantine"
PLACE, SPLIT, CONTENT = ".place", ".split", (".content0", ".content1")
ROW, TIED = ".row", ".tied"
"""Columns of a spill: the hash of the example (of its named key, or of its whole row), by which it is recognised
however its columns are used; and whether a copy of its inputs may take it to another split."""
SPILL_BYTES = 64 << 20
"""Size of typed rows at which a spill ends."""
NAMED = 1000
"""Rows that a note lists; all bad ones are in `quarantine/`."""
SHOWN = 200
"""Characters of a value in `quarantine/`."""

HASHED = ("text", "words", "image", "audio")
"""Kinds of inputs whose values are compared by themselves."""


@dataclass
class Spill:
    """The note of a spill: what became of its rows."""

    partition: int
    part: int = 0
    """Number of the spill within the partition."""
    last: bool = True
    """Whether the partition has no further spill."""
    moved: bool = False
    """Whether some of its rows moved to another split."""
    read: int = 0
    bytes: int = 0
    """Size of the typed rows."""
    splits: list[int] = field(default_factory=list)
    """Rows of each split, in order of name."""
    quarantined: int = 0
    filtered: int = 0
    """Rows for which `records.filter` does not hold."""
    skipped: int = 0
    """Rows that the source's config leaves out."""
    bad: list[list[str]] = field(default_factory=list)
    """[key, reason, place] of the first quarantined rows."""
    left_out: list[list[str]] = field(default_factory=list)
    """[key, reason, place] of the first skipped rows."""
    classes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Rows by class, of each column of classes by name."""

    @property
    def rows(self) -> int:
        """Number of rows of the spill."""
        return sum(self.splits)

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.partition:06d}-{self.part:04d}"

    @property
    def file(self) -> str:
        """The name of its rows' file in the staging."""
        return f"{MOVED if self.moved else SPILLS}/{self.name}.arrow"

    @property
    def quarantine(self) -> str:
        """The name of the file with its bad rows."""
        return f"{QUARANTINE}/{self.name}.jsonl"


class Sorter:
    """Sorts partitions into spills; inherited by forked processes. `features`: those of the records."""

    def __init__(self, source: Source, config: RecordsConfig, staging: Staging, plan: str) -> None:
        """Prepare to sort.

        Args:
            plan: a digest of the content of the source; spills of another one are not used.

        Raises:
            Refused: splits, filter or rules do not fit the source.
        """
        declared = dict(source.features)
        self._source, self._config, self._staging, self._plan = source, config, staging, plan
        self._key = next(iter(of_role(declared, "key")), None)
        self._split = next(iter(of_role(declared, "split")), None)
        self.features = {KEY: KEY_FEATURE, **{n: f for n, f in declared.items() if f.role not in ("key", "split")}}
        self._rules = Rules(self.features, config)
        self._assignment = Assignment(config, declared, source.official)
        self.compared = compared(self.features, config.near_duplicates)
        """The input of which near-duplicates are looked for."""

    def sort(self, numbered: tuple[int, Partition]) -> list[Spill]:
        """Sort a partition, given with its number, into spills, unless an earlier attempt did; return their notes."""
        number, partition = numbered
        if (done := self._adopted(number)) is not None:
            return done
        spills, spill = list[Spill](), Spill(number)
        tables, quarantine, held = list[pa.Table](), list[dict[str, Any]](), 0
        for rows in self._source.read(partition):
            if held > SPILL_BYTES:
                spills.append(self._written(replace(spill, last=False), tables, quarantine))
                spill, tables, quarantine, held = Spill(number, len(spills)), [], [], 0
            table, bad = self._sorted_out(rows, spill)
            tables.append(table)
            quarantine += bad
            held += table.nbytes
        return [*spills, self._written(spill, tables, quarantine)]

    def _written(self, spill: Spill, tables: list[pa.Table], quarantine: list[dict[str, Any]]) -> Spill:
        """Write a spill and its bad rows; return its complete note."""
        table = pa.concat_tables(tables).combine_chunks() if tables else pa.table({})
        if table.num_rows:
            splits = np.asarray(table[SPLIT])
            table = table.take(pa.array(np.lexsort((np.asarray(table[PLACE]), splits)))).combine_chunks()
            spill.splits = np.bincount(splits, minlength=len(self._assignment.names)).tolist()
        spill.quarantined, spill.bytes = len(quarantine), table.nbytes
        spill.bad = [[row["key"], row["reason"], row["place"]] for row in quarantine[:NAMED]]
        if quarantine:
            lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in quarantine)
            self._staging.put(spill.quarantine, "".join(lines).encode())
        write_spill(self._staging, table, spill, self._plan)
        return spill

    def _adopted(self, number: int) -> list[Spill] | None:
        """Return the notes of a partition's spills that an earlier attempt finished, with their files of bad rows."""
        spills = list[Spill]()
        while not spills or not spills[-1].last:
            note = self._staging.adopt(Spill(number, len(spills)).file)
            if note is None or note.pop("plan") != self._plan:
                return None
            spill = Spill(**note)
            if spill.quarantined and self._staging.adopt(spill.quarantine) is None:
                return None
            spills.append(spill)
        return spills

    def _sorted_out(self, rows: Rows, spill: Spill) -> tuple[pa.Table, list[dict[str, Any]]]:
        """Return the rows that are kept, with their hashes and splits, and the bad ones as lines of `quarantine/`."""
        raw = {name: one_chunk(column) for name, column in rows.columns.items()}
        bad: dict[int, str] = {}
        table, exact = self._typed(raw, one_chunk(rows.keys), bad)
        official = self._column(self._split, raw, bad) if self._split else rows.splits and one_chunk(rows.splits)
        self._rules.check(table, _but(table.num_rows, bad), bad)
        contents, keys = self._contents(table, exact), hashes_of([key.encode() for key in table[KEY].to_pylist()])
        hashes = hashes_of_rows(rows, raw, keys if self._key else None)
        numbers, tied = self._assignment.numbers(table, raw, hashes, official, bad)
        good = _but(table.num_rows, bad)
        kept = self._rules.keep(table, good)
        assert (numbers[kept] != UNASSIGNED).all()
        spill.read += table.num_rows + len(rows.bad) + len(rows.skipped)
        spill.filtered += len(good) - len(kept)
        spill.skipped += len(rows.skipped)
        spill.left_out += [[row.key, row.reason, row.place] for row in rows.skipped[: NAMED - len(spill.left_out)]]
        quarantine = [{**asdict(row), "values": {}} for row in rows.bad]
        quarantine += [
            {"key": str(table[KEY][row]), "reason": bad[row], "place": rows.place(row), "values": self._shown(raw, row)}
            for row in sorted(bad)
        ]
        added = {PLACE: places(keys, self._config.split_seed), SPLIT: numbers, ROW: hashes, TIED: tied}
        for name, values in (added | {CONTENT[0]: contents[:, 0], CONTENT[1]: contents[:, 1]}).items():
            table = table.append_column(name, pa.array(values))
        table = self._with_hashes(table.take(pa.array(kept)))
        for name, feature in self.features.items():
            if feature.kind in CLASSED:
                counts: Counter[str] = Counter(column_type(feature).state(one_chunk(table[name]), {})["classes"])
                spill.classes[name] = dict(sorted((Counter(spill.classes.get(name, {})) + counts).items()))
        return table, quarantine

    def _typed(
        self, raw: dict[str, pa.Array], keys: pa.Array, bad: dict[int, str]
    ) -> tuple[pa.Table, dict[str, Sequence[Encoded]]]:
        """Cast the columns to the types of the features; add to `bad` the first reason of a row that does not fit.

        Returns:
            The columns, and the values as they were read of those whose type holds less.
        """
        exact: dict[str, Sequence[Encoded]] = {}
        columns = {KEY: self._column(self._key, raw, bad) if self._key else keys.cast(pa.string())}
        for name, feature in self.features.items():
            if name != KEY:
                typed = column_types.typed(feature, raw[name], self._config.max_pixels)
                columns[name] = typed.values
                if typed.exact:
                    exact[name] = typed.exact
                columns |= {measured(name, short): values for short, values in typed.measured.items()}
                for row, reason in typed.bad.items():
                    bad.setdefault(row, f"{name}: {reason}")
        table = pa.table(columns)
        for row, reason in unequal(self.features, table).items():
            bad.setdefault(row, reason)
        return table, exact

    def _column(self, name: str, raw: dict[str, pa.Array], bad: dict[int, str]) -> pa.Array:
        """Return a column of keys or splits as strings; a missing one is bad."""
        category = Category(COLUMN)
        typed = category.typed(raw[name])
        missing = np.flatnonzero(np.asarray(category.missing(typed.values)))
        for row, reason in {**{int(row): "missing" for row in missing}, **typed.bad}.items():
            bad.setdefault(row, f"{name}: {reason}")
        return typed.values

    def _contents(self, table: pa.Table, exact: Mapping[str, Sequence[Encoded]]) -> NDArray[np.uint64]:
        """Return digests of the inputs of each row as they were read, uint64 [n, 2]."""
        inputs = of_role(self.features, "input")
        entries = [exact.get(name) or column_type(inputs[name]).entry(name, one_chunk(table[name])) for name in inputs]
        return digests(values_of(join(*(part for parts in entries for part in parts))))

    def _with_hashes(self, table: pa.Table) -> pa.Table:
        """Return rows with what comparisons need: a hash of each of several inputs, and of the one that is compared."""
        alone = {self.compared.column} if self.compared else set()
        for name in sorted({*hashed(self.features), *alone}):
            column, of_type = one_chunk(table[name]), column_type(self.features[name])
            [*_, payload] = of_type.entry(name, column)
            missing = np.asarray(of_type.missing(column))
            values = np.where(missing, 0, np.maximum(digests(values_of(payload))[:, 0], 1))
            table = table.append_column(hash_of(name), pa.array(values.astype(np.uint64)))
        return self.compared.added(table) if self.compared else table

    def _shown(self, raw: dict[str, pa.Array], row: int) -> dict[str, str]:
        """Return the raw values of a row as text."""
        shown = {}
        for name in self._source.features:
            value = raw[name][row].as_py()
            shown[name] = f"{len(value):,} bytes" if isinstance(value, bytes) else str(value)[:SHOWN]
        return shown


def write_spill(staging: Staging, table: pa.Table, spill: Spill, plan: str) -> None:
    """Write a spill's file with its note."""
    with staging.piece(spill.file) as written:
        with pa.OSFile(str(written.path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        written.note.update(asdict(spill), plan=plan)


def measured(feature: str, short: str) -> str:
    """Return the name of a spill's column with what was measured of a feature's values."""
    return f".{short}.{feature}"


def hashed(features: Mapping[str, Feature]) -> list[str]:
    """Return the inputs of which each has a hash of its own, as there are several inputs."""
    inputs = of_role(features, "input")
    return [name for name, feature in inputs.items() if feature.kind in HASHED] if len(inputs) > 1 else []


def hash_of(feature: str) -> str:
    """Return the name of a spill's column with the hashes of an input, 0 of a missing one."""
    return f"{ASIDE}hash.{feature}"


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _but(rows: int, bad: dict[int, str]) -> NDArray[np.int64]:
    """Return the numbers of the rows that are not bad."""
    good = np.ones(rows, bool)
    good[list(bad)] = False
    return np.flatnonzero(good)
