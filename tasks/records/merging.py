"""The second pass of a conversion: shards of records, merged from the sorted spills.

A shard is written a range of places at a time: memory depends neither on the size of the source nor on that of a shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.records.arrays import ArrayWriter
from tasks.records.column_types import States, column_type, merged, states_of
from tasks.records.near import ASIDE
from tasks.records.sorting import PLACE, ROW, SPLIT, Spill, one_chunk, write_spill
from tasks.sources.encoding import examples, framed
from tasks.sources.features import Feature
from tasks.sources.hashes import SPACE, shard_bounds
from tasks.store.files import canonical
from tasks.store.staging import TEMPORARY, Staging

RANGE_BYTES = 8 << 20
"""Bytes of rows that are merged at once, about."""
OPEN_RUNS = 256
"""Spills that are open at the same time; a process may have about 1,000 open files."""


class Spills:
    """The spills of a conversion, memory-mapped."""

    def __init__(self, staging: Staging, notes: list[Spill], splits: list[str]) -> None:
        """Open the spills of a staging; `splits` are the names of the splits, sorted."""
        self.notes, self.splits = notes, splits
        self.numbers = [number for number, note in enumerate(notes) if note.rows]
        self.total, self.bytes = sum(note.rows for note in notes), sum(note.bytes for note in notes)
        self.moved: dict[int, NDArray[np.int64]] = {}
        """By spill, the splits of its rows; of spills in which some are in another split than their file says."""
        self._staging = staging
        self.table = lru_cache(maxsize=OPEN_RUNS)(self._open)

    def _open(self, spill: int) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(self._staging.root / self.notes[spill].file))).read_all()

    def sha256(self, spill: int) -> str:
        """Return the SHA-256 of a spill's file."""
        digest: str = self._sums[self.notes[spill].file]
        return digest

    @cached_property
    def _sums(self) -> dict[str, str]:
        return {name: note["sha256"] for name, note in self._staging.pieces(TEMPORARY).items()}

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each split."""
        filled = [note.splits for note in self.notes if note.rows]
        return {split: sum(rows[number] for rows in filled) for number, split in enumerate(self.splits)}

    def rows(self, spill: int) -> int:
        """Return the number of rows of a spill."""
        return self.notes[spill].rows

    def column(self, spill: int, name: str) -> NDArray[Any]:
        """Return a column of numbers of a spill."""
        if name == SPLIT and spill in self.moved:
            return self.moved[spill]
        return np.asarray(one_chunk(self.table(spill)[name]))

    def move(self, spills: NDArray[np.int32], rows: NDArray[np.int32], splits: NDArray[np.int64]) -> None:
        """Move rows to other splits, all [n]; their places stand once the spills are written anew (`regrouping`)."""
        for spill in np.unique(spills).tolist():
            of_spill = spills == spill
            self.moved.setdefault(spill, self.column(spill, SPLIT).copy())[rows[of_spill]] = splits[of_spill]

    def value(self, spill: int, name: str, row: int) -> Any:
        """Return a value of a spill that does not change by moves."""
        return self.table(spill)[name][row].as_py()

    def split(self, spill: int, row: int) -> int:
        """Return the number of a row's split."""
        return int(self.column(spill, SPLIT)[row])

    def slice(self, spill: int, split: int, low: int, high: int) -> pa.Table:
        """Return the rows of a split in a spill whose places are in [low, high)."""
        start, stop = self.between(spill, split, low, high)
        return self.table(spill).slice(start, stop - start)

    def between(self, spill: int, split: int, low: int, high: int) -> tuple[int, int]:
        """Return the rows [start, stop) of a split in a spill whose places are in [low, high)."""
        ends = np.cumsum([0, *self.notes[spill].splits])
        places = self.column(spill, PLACE)[ends[split] : ends[split + 1]]
        start = int(ends[split] + np.searchsorted(places, np.uint64(low)))
        if high == SPACE:
            return start, int(ends[split + 1])
        return start, int(ends[split] + np.searchsorted(places, np.uint64(high)))


@dataclass(frozen=True)
class Shard:
    """A shard file of a split."""

    split: str
    number: int
    total: int

    def file(self, name: str) -> str:
        """Return its name, as in tensorflow-datasets."""
        return f"{name}-{self.split}.tfrecord-{self.number:05d}-of-{self.total:05d}"


@dataclass(frozen=True)
class WrittenShard:
    """The note of a finished shard, so that the next attempt can use it."""

    plan: str
    examples: int
    bytes: int
    statistics: States


class Merger:
    """Merges spills into shards; inherited by forked processes."""

    def __init__(
        self,
        staging: Staging,
        name: str,
        features: Mapping[str, Feature],
        spills: Spills,
        dropped: Mapping[int, NDArray[np.bool_]],
    ) -> None:
        """Prepare to merge; `dropped` says by spill which rows are left out as copies."""
        self._staging, self._name, self._spills, self._dropped = staging, name, spills, dropped
        self.features = dict(sorted(features.items()))
        self._plan = self._digest()

    def _digest(self) -> str:
        """Return a digest of the spills' files, of the rows that are dropped, and of the features."""
        sums = [self._spills.sha256(spill) for spill in self._spills.numbers]
        copies = {spill: hashlib.sha256(mask.tobytes()).hexdigest() for spill, mask in sorted(self._dropped.items())}
        schema = {name: feature.as_json() for name, feature in self.features.items()}
        return hashlib.sha256(canonical([sums, copies, schema])).hexdigest()

    def write(self, shard: Shard) -> WrittenShard:
        """Write a shard, the offsets and the hashes of its rows, unless an earlier attempt did."""
        file = shard.file(self._name)
        index, hashes = f"index/{file}.npy", f"rows/{file}.npy"
        done, *beside = (self._staging.adopt(name) for name in (file, index, hashes))
        if done is not None and all(note is not None and note["plan"] == self._plan for note in (done, *beside)):
            return WrittenShard(**done)
        statistics: States = {}
        count, size = self._count(shard), 0
        with (
            self._staging.piece(file) as piece,  # is whole last
            self._staging.piece(index, plan=self._plan) as of_index,
            self._staging.piece(hashes, plan=self._plan) as of_rows,
        ):
            with (
                open(piece.path, "wb") as records,
                ArrayWriter(of_index.path, "<u8", (count + 1,)) as offsets,
                ArrayWriter(of_rows.path, "<u8", (count,)) as rows,
            ):
                offsets.append(np.zeros(1, np.uint64))
                for table in self._ranges(shard):
                    columns = {name: one_chunk(table[name]) for name in self.features}
                    entries = {name: column_type(f).entry(name, columns[name]) for name, f in self.features.items()}
                    frames, lengths = framed(examples(entries))
                    records.write(frames)
                    offsets.append(size + np.cumsum(lengths))
                    rows.append(np.asarray(one_chunk(table[ROW])))
                    size += int(lengths.sum())
                    states = states_of(self.features, columns, _measured(table))
                    statistics = merged(self.features, [statistics, states])
            written = WrittenShard(self._plan, count, size, statistics)
            piece.note.update(vars(written))
        return written

    def _count(self, shard: Shard) -> int:
        """Return the number of a shard's rows."""
        split = self._spills.splits.index(shard.split)
        bounds = shard_bounds(shard.total)[shard.number]
        count = 0
        for spill in self._spills.numbers:
            start, stop = self._spills.between(spill, split, *bounds)
            dropped = self._dropped.get(spill)
            count += stop - start - (0 if dropped is None else int(dropped[start:stop].sum()))
        return count

    def _ranges(self, shard: Shard) -> Iterator[pa.Table]:
        """Yield the rows of a shard in order, about `RANGE_BYTES` at a time."""
        split = self._spills.splits.index(shard.split)
        low, high = shard_bounds(shard.total)[shard.number]
        share = (high - low) / SPACE
        size = sum(note.bytes * note.splits[split] / note.rows * share for note in self._spills.notes if note.rows)
        parts = max(1, round(size / RANGE_BYTES))
        ends = [low + (high - low) * part // parts for part in range(parts + 1)]
        for begin, end in pairwise(ends):
            tables = [
                table for spill in self._spills.numbers if (table := self._rows(spill, split, begin, end)).num_rows
            ]
            if tables:
                table = pa.concat_tables(tables)
                order = np.argsort(np.asarray(one_chunk(table[PLACE])), kind="stable")
                yield table.take(pa.array(order)).combine_chunks()

    def _rows(self, spill: int, split: int, low: int, high: int) -> pa.Table:
        table = self._spills.slice(spill, split, low, high)
        table = table.select([name for name in table.column_names if not name.startswith(ASIDE)])
        if (dropped := self._dropped.get(spill)) is not None:
            start, stop = self._spills.between(spill, split, low, high)
            table = table.filter(pa.array(~dropped[start:stop]))
        return table


def _measured(table: pa.Table) -> dict[str, dict[str, pa.Array]]:
    """Return the columns with what was measured, by feature and short name."""
    columns: dict[str, dict[str, pa.Array]] = {}
    for name in table.column_names:
        if name.startswith(".") and name.count(".") > 1:
            short, _, feature = name[1:].partition(".")
            columns.setdefault(feature, {})[short] = one_chunk(table[name])
    return columns


class Regrouper:
    """Writes spills anew; inherited by forked processes."""

    def __init__(self, staging: Staging, spills: Spills) -> None:
        """Prepare to write the spills of which rows have moved (`Spills.moved`)."""
        self._staging, self._spills = staging, spills

    def regroup(self, spill: int) -> Spill:
        """Write a spill with its rows in their new splits, unless an earlier attempt did; return its note."""
        splits = self._spills.column(spill, SPLIT)
        moves = hashlib.sha256(splits.astype("<i8").tobytes()).hexdigest()
        plan = hashlib.sha256(
            canonical([asdict(self._spills.notes[spill]), self._spills.sha256(spill), moves])
        ).hexdigest()
        note = replace(self._spills.notes[spill], moved=True)
        done = self._staging.adopt(note.file)
        if done is not None and done.pop("plan") == plan:
            return Spill(**done)
        table = self._spills.table(spill)
        table = table.set_column(table.column_names.index(SPLIT), SPLIT, pa.array(splits))
        table = table.take(pa.array(np.lexsort((np.asarray(table[PLACE]), splits)))).combine_chunks()
        counts = np.bincount(splits, minlength=len(self._spills.splits)).tolist()
        note = replace(note, splits=counts)
        write_spill(self._staging, table, note, plan)
        return note
