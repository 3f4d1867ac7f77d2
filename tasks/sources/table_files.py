"""Files of rows, as the sources csv, jsonl, parquet, tfrecord and webdataset have in common; and rows by number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.sources import PARTITION_BYTES, Bad, Partition, Rows, Source, not_utf8
from tasks.sources.features import Feature
from tasks.sources.files import Folder, find
from tasks.sources.hashes import Hashes, hashes_of_columns
from tasks.sources.kinds.columns import ReferringTables, TableFiles, features_of, read_columns
from tasks.sources.payloads import Payloads, columns_of_files
from tasks.sources.streams import COMPRESSIONS, reading
from tasks.sources.values import Columns
from tasks.store.files import StatKey, stat_of

REFERRING = 256
"""Pieces whose rows refer to files are so many times smaller: the files are raw data too."""


@dataclass(frozen=True)
class Part:
    """What of a file is read at a time."""

    path: str
    bytes: int
    where: tuple[Any, ...] = ()
    """What `Tables.rows` needs to find it in the file."""


class Tables(Source):
    """A file of rows, or those of a folder. What a kind of file adds: `parts` and `rows`."""

    def __init__(self, config: TableFiles, memory: Path | None) -> None:
        """Find the files; raises `Refused` where there are none, or the first has other columns than named."""
        path = Path(config.path).expanduser()
        self._only = path.name if path.is_file() else None
        self.config = config
        self.root = path.parent if self._only else path
        self.columns = read_columns(config)
        self.paths = self._find()
        self._folder = Folder(self.root, memory)
        self.files = columns_of_files(config)
        if isinstance(config, ReferringTables):
            self._payloads = Payloads(self.root, self.files, config.files)
        else:  # images and sounds are in the files of rows
            self._payloads = Payloads(self.root, [])
        self._stats: dict[str, StatKey] = {}
        self._content: dict[str, str] = {}
        """SHA-256 of each file, of rows or referred to."""
        self._referred: tuple[dict[str, StatKey], set[str]] | None = None
        self.check(self.paths[0])

    def check(self, path: str) -> None:
        """Raise `Refused` where a file has other columns than the config names, as far as its beginning tells."""
        return

    @abstractmethod
    def parts(self, path: str, target: int) -> Iterable[Part]:
        """Yield the parts of a file, of about `target` bytes each; raises `Refused` for other columns than named."""

    @abstractmethod
    def rows(self, path: str, where: tuple[Any, ...], columns: list[str], hashed: bool) -> Iterator[Rows]:
        """Yield the rows of a part with some of the columns, and with the hashes of whole rows where `hashed`."""

    def referring(self, path: str) -> list[str]:
        """Return the columns of a file that may hold paths."""
        return self._payloads.names

    @property
    def features(self) -> Mapping[str, Feature]:
        return features_of(self.config)

    def size(self) -> int:
        return self._folder.size(self.paths)

    def newest(self) -> float:
        return self._folder.newest(self.paths)

    def fingerprint(self) -> list[tuple[str, str]]:
        self.paths = self._find()
        stats = {}
        for path in self.paths:
            with reading(path):
                stats[path] = stat_of(self.root / path)
        self._stats = stats
        content = dict(zip(self.paths, self._folder.of(self.paths), strict=True))
        if self._payloads.names:
            if self._referred is None or self._referred[0] != stats:
                self._referred = stats, self._references()
            referred = sorted(self._referred[1])
            content |= zip(referred, self._folder.of(referred), strict=True)
        self._content = content
        return sorted(content.items())

    def partitions(self) -> list[Partition]:
        if not self._stats:
            self.fingerprint()
        target = PARTITION_BYTES // (REFERRING if self._payloads.names else 1)
        return list(packed((part for path in self.paths for part in self.parts(path, target)), target))

    def read(self, partition: Partition) -> Iterator[Rows]:
        for path, *where in partition.where:
            self._check_unchanged(path)
            for rows in self.rows(path, tuple(where), self.columns, self.config.key is None):
                yield from self._payloads.filled(rows, self._content) if self._payloads.names else (rows,)
            self._check_unchanged(path)

    def _references(self) -> set[str]:
        """Return the files that rows refer to."""
        found: set[str] = set()
        for path in self.paths:
            if names := self.referring(path):
                for part in self.parts(path, PARTITION_BYTES):
                    for rows in self.rows(path, part.where, names, False):
                        found |= self._payloads.referenced(rows.columns)
        return found

    def _check_unchanged(self, path: str) -> None:
        with reading(path):
            if stat_of(self.root / path) == self._stats[path]:
                return
        raise Failed(path, "it changed while it was read", "a source must not change during a run", "run again")

    def _find(self) -> list[str]:
        if self._only:
            return [self._only]
        return find(self.root, self.config.glob, self.config.exclude, self._is_table)  # type: ignore[attr-defined]

    def _is_table(self, name: str) -> bool:
        """Return whether a name that says the kind of file says no more than a compression: `a.csv.bak` is none."""
        _, said, rest = name.lower().rpartition(f".{self.config.kind}")
        return not said or rest in ("", *COMPRESSIONS)


def packed(parts: Iterable[Part], target: int) -> Iterator[Partition]:
    """Yield partitions of consecutive parts, of about `target` bytes each."""
    held: list[Part] = []
    size = 0
    for part in parts:
        if held and size + part.bytes > target:
            yield _partition(held, size)
            held, size = [], 0
        held.append(part)
        size += part.bytes
    if held:
        yield _partition(held, size)


def _partition(parts: list[Part], size: int) -> Partition:
    return Partition(parts[0].path, size, tuple((part.path, *part.where) for part in parts))


DIGITS = 9
"""Digits of a row's number in a key, so that keys sort as rows do."""

NUL = "a NUL byte"


@dataclass(frozen=True)
class Numbered:
    """Consecutive records of a file or of a function."""

    path: str
    first: int
    """Number of the first record, from 0."""
    count: int
    lines: Sequence[int] | NDArray[np.intp] | None = None
    """The line on which each begins, from 1; None where there are no lines, and places give the row, from 1."""

    def place(self, record: int) -> str:
        """Return where a person finds a record."""
        if self.lines is None:
            return f"{self.path} row {self.first + record + 1}"
        return f"{self.path} line {self.lines[record]}"

    def rows(
        self, columns: Columns, bad: Mapping[int, str], absent: Sequence[int] = (), hashes: Hashes | None = None
    ) -> Rows:
        """Return the records that are not in `bad`.

        Args:
            columns: values of all records but the `absent` ones.
            bad: by record, why it cannot be read.
            hashes: of all records, the absent ones too.
        """
        present = np.delete(np.arange(self.count), list(absent))
        if leave := set(bad) - set(absent):
            kept = np.flatnonzero(~np.isin(present, sorted(leave)))
            present, columns = present[kept], {name: column.take(pa.array(kept)) for name, column in columns.items()}
        left_out = [
            Bad(f"{self.path}:{self.first + record:0{DIGITS}d}", reason, self.place(record))
            for record, reason in sorted(bad.items())
        ]
        chosen = None if hashes is None else hashes[present]
        keys = self._keys(present)
        return Rows(columns, keys, lambda row: self.place(int(present[row])), bad=left_out, hashes=chosen)

    def _keys(self, records: NDArray[np.int64]) -> pa.Array:
        numbers = pc.utf8_lpad(pa.array(records + self.first).cast(pa.string()), DIGITS, "0")
        return pc.binary_join_element_wise(pa.scalar(f"{self.path}:"), numbers, "")


BATCH_BYTES, BATCH_ROWS = 4 << 20, 20_000
"""Bytes of a batch, about, and its rows at most."""

Item = TypeVar("Item")


def batches(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield items in batches, by the bytes of each."""
    batch, held = list[Item](), 0
    for item in items:
        batch.append(item)
        held += size(item)
        if held >= BATCH_BYTES or len(batch) == BATCH_ROWS:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def hashes_of_rows(rows: Rows, columns: Mapping[str, pa.Array], keys: Hashes | None) -> Hashes:
    """Return the hash by which each row is recognised, uint64 [rows]: of its key, or of all that the source has of it.

    Args:
        columns: those of `rows`.
        keys: hashes of the keys; None where no key is named.
    """
    if keys is not None:
        return keys
    return hashes_of_columns(columns, len(rows.keys)) if rows.hashes is None else rows.hashes


def is_utf8(data: bytes) -> bool:
    """Return whether all of it is text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def texts(columns: Columns) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Return binary columns as text, and the rows that are not, with reasons."""
    decoded: dict[str, pa.Array] = {}
    bad: dict[int, str] = {}
    for name, column in columns.items():
        try:
            decoded[name] = column.cast(pa.string())
        except pa.ArrowInvalid:
            values: list[str | None] = []
            for row, octets in enumerate(column.to_pylist()):
                try:
                    values.append(None if octets is None else octets.decode())
                except UnicodeDecodeError as error:
                    bad.setdefault(row, f"{name}: {not_utf8(error)}")
                    values.append(None)
            decoded[name] = pa.array(values, pa.string())
    return decoded, bad


def with_nul(columns: Columns) -> dict[int, str]:
    """Return the rows of text with a NUL byte, which no text has."""
    bad: dict[int, str] = {}
    for name, column in columns.items():
        found = pc.fill_null(pc.match_substring(column, "\0"), False)
        for row in np.flatnonzero(np.asarray(found)):
            bad.setdefault(int(row), f"{name}: {NUL}")
    return bad
