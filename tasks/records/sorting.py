"""The first pass of a conversion: pieces of a source as sorted runs of checked, typed rows.

A run is an Arrow file with rows of a piece in the order of split and place, so that a shard is a merge of runs. It is a
piece of the staging: a kill costs the runs that were under way. A piece of more than `RUN_BYTES`, as of a source that
can only be read from its beginning, has several runs: a process holds one run at a time.
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

from tasks.records import cells
from tasks.records.assignment import COLUMN, UNASSIGNED, Assignment
from tasks.records.column_types import column_type
from tasks.records.column_types.categories import Category, unequal
from tasks.records.config import RecordsConfig
from tasks.records.near import ASIDE, compared
from tasks.records.rules import Rules
from tasks.sources import Piece, Rows, Source
from tasks.sources.encoding import Encoded, join, values_of
from tasks.sources.features import KEY, KEY_FEATURE, Feature, of_role
from tasks.sources.hashes import digests, places
from tasks.sources.rows import hashes_of, hashes_of_rows
from tasks.store.staging import TEMPORARY, Staging

RUN_VERSION = 4
"""Of the columns of a run; those of an earlier attempt with other columns are not used."""
RUNS, MOVED, QUARANTINE = f"{TEMPORARY}runs", f"{TEMPORARY}moved", "quarantine"
PLACE, SPLIT, CONTENT = ".place", ".split", (".content0", ".content1")
ROW, TIED = ".row", ".tied"
"""Columns of a run: the hash of the example (of its named key, or of its whole row), by which it is recognised however
its columns are used; and whether a copy of its inputs may take it to another split."""
RUN_BYTES = 64 << 20
"""Size of typed rows at which a run ends."""
NAMED = 1000
"""Rows that a note lists; all bad ones are in `quarantine/`."""
SHOWN = 200
"""Characters of a value in `quarantine/`."""

HASHED = ("text", "words", "image", "audio")
"""Kinds of inputs whose values are compared by themselves."""


@dataclass
class Run:
    """The note of a run: what became of its rows."""

    piece: int
    part: int = 0
    """Number of the run within the piece."""
    last: bool = True
    """Whether the piece has no further run."""
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
    classes: dict[str, int] = field(default_factory=dict)
    """Rows by label."""

    @property
    def rows(self) -> int:
        """Number of rows of the run."""
        return sum(self.splits)

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.piece:06d}-{self.part:04d}"

    @property
    def file(self) -> str:
        """The name of its rows' file in the staging."""
        return f"{MOVED if self.moved else RUNS}/{self.name}.arrow"

    @property
    def quarantine(self) -> str:
        """The name of the file with its bad rows."""
        return f"{QUARANTINE}/{self.name}.jsonl"


class Sorter:
    """Sorts pieces into runs; inherited by forked processes. `features`: those of the records."""

    def __init__(self, source: Source, config: RecordsConfig, staging: Staging, plan: str) -> None:
        """Prepare to sort.

        Args:
            plan: a digest of the content of the source; runs of another one are not used.

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

    def sort(self, numbered: tuple[int, Piece]) -> list[Run]:
        """Sort a piece, given with its number, into its runs, unless an earlier attempt did; return their notes."""
        number, piece = numbered
        if (done := self._adopted(number)) is not None:
            return done
        runs, run, tables, quarantine, held = list[Run](), Run(number), list[pa.Table](), list[dict[str, Any]](), 0
        for rows in self._source.read(piece):
            if held > RUN_BYTES:
                runs.append(self._written(replace(run, last=False), tables, quarantine))
                run, tables, quarantine, held = Run(number, len(runs)), [], [], 0
            table, bad = self._sorted_out(rows, run)
            tables.append(table)
            quarantine += bad
            held += table.nbytes
        return [*runs, self._written(run, tables, quarantine)]

    def _written(self, run: Run, tables: list[pa.Table], quarantine: list[dict[str, Any]]) -> Run:
        """Write a run and its bad rows; return its complete note."""
        table = pa.concat_tables(tables).combine_chunks() if tables else pa.table({})
        if table.num_rows:
            splits = np.asarray(table[SPLIT])
            table = table.take(pa.array(np.lexsort((np.asarray(table[PLACE]), splits)))).combine_chunks()
            run.splits = np.bincount(splits, minlength=len(self._assignment.names)).tolist()
        run.quarantined, run.bytes = len(quarantine), table.nbytes
        run.bad = [[row["key"], row["reason"], row["place"]] for row in quarantine[:NAMED]]
        if quarantine:
            lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in quarantine)
            self._staging.put(run.quarantine, "".join(lines).encode())
        write_run(self._staging, table, run, self._plan)
        return run

    def _adopted(self, number: int) -> list[Run] | None:
        """Return the notes of the runs of a piece that an earlier attempt finished, with their files of bad rows."""
        runs = list[Run]()
        while not runs or not runs[-1].last:
            note = self._staging.adopt(Run(number, len(runs)).file)
            if note is None or note.pop("plan") != self._plan:
                return None
            run = Run(**note)
            if run.quarantined and self._staging.adopt(run.quarantine) is None:
                return None
            runs.append(run)
        return runs

    def _sorted_out(self, rows: Rows, run: Run) -> tuple[pa.Table, list[dict[str, Any]]]:
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
        run.read += table.num_rows + len(rows.bad) + len(rows.skipped)
        run.filtered += len(good) - len(kept)
        run.skipped += len(rows.skipped)
        run.left_out += [[row.key, row.reason, row.place] for row in rows.skipped[: NAMED - len(run.left_out)]]
        quarantine = [{**asdict(row), "values": {}} for row in rows.bad]
        quarantine += [
            {"key": str(table[KEY][row]), "reason": bad[row], "place": rows.place(row), "values": self._shown(raw, row)}
            for row in sorted(bad)
        ]
        added = {PLACE: places(keys, self._config.split_seed), SPLIT: numbers, ROW: hashes, TIED: tied}
        for name, values in (added | {CONTENT[0]: contents[:, 0], CONTENT[1]: contents[:, 1]}).items():
            table = table.append_column(name, pa.array(values))
        table = self._with_hashes(table.take(pa.array(kept)))
        for name, feature in of_role(self.features, "label").items():
            counts: Counter[str] = Counter(column_type(feature).state(one_chunk(table[name]), {})["classes"])
            run.classes = dict(sorted((Counter(run.classes) + counts).items()))
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
                typed = cells.typed(feature, raw[name], self._config.max_pixels)
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


def write_run(staging: Staging, table: pa.Table, run: Run, plan: str) -> None:
    """Write a run's file with its note."""
    with staging.piece(run.file) as written:
        with pa.OSFile(str(written.path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        written.note.update(asdict(run), plan=plan)


def measured(feature: str, short: str) -> str:
    """Return the name of a run's column with what was measured of a feature's values."""
    return f".{short}.{feature}"


def hashed(features: Mapping[str, Feature]) -> list[str]:
    """Return the inputs of which each has a hash of its own, as there are several inputs."""
    inputs = of_role(dict(features), "input")
    return [name for name, feature in inputs.items() if feature.kind in HASHED] if len(inputs) > 1 else []


def hash_of(feature: str) -> str:
    """Return the name of a run's column with the hashes of an input, 0 of a missing one."""
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
