"""Columns of images and sounds whose cells are paths: the files below the source, in place of their names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tasks.errors import Failed
from tasks.sources import PARTITION_BYTES, Bad, Rows
from tasks.sources.files import other_content
from tasks.sources.kinds.columns import ColumnsSource
from tasks.sources.values import Columns, is_octets

UNLISTED = "no such file when the source was listed"


def columns_of_files(config: ColumnsSource) -> list[str]:
    """Return the columns whose cells may be paths."""
    return [name for name, kind in config.columns.items() if kind in ("image", "audio")]


class Payloads:
    """The files below a folder to which cells refer by their relative paths, or by what is in these in place of `{}`.

    Args:
        patterns: the paths of a column's files, where a cell is not the path.
    """

    def __init__(self, root: Path, names: list[str], patterns: Mapping[str, str] = {}) -> None:
        self.names = names
        self._patterns = patterns
        self._root = root
        self._real = os.path.realpath(root)

    def referenced(self, columns: Columns) -> set[str]:
        """Return the paths in columns whose files are there."""
        named = {
            self._path(name, cell)
            for name, column in columns.items()
            for cell in _cells(column)
            if isinstance(cell, str)
        }
        return {normal(path) for path in named if self._misplaced(path) is None}

    def filled(self, rows: Rows, hashes: Mapping[str, str]) -> Iterator[Rows]:
        """Yield rows with the content of files in place of their paths, as many at a time as fit into memory.

        Args:
            hashes: the SHA-256 of each file that was listed.

        Raises:
            Failed: a file has changed since.
        """
        embedded = {name: _embedded(rows.columns[name]) for name in self.names}
        columns = {**rows.columns, **{name: column for name, column in embedded.items() if column is not None}}
        names = [name for name in self.names if embedded[name] is None]
        rows = replace(rows, columns=columns)
        if not names:
            yield rows
            return
        cells = {name: _cells(rows.columns[name]) for name in names}
        bad, begin, size = list(rows.bad), 0, 0
        content: dict[str, list[bytes | None]] = {name: [] for name in names}
        misplaced: dict[int, str] = {}
        for number in range(len(rows.keys)):
            for name in names:
                value = cells[name][number]
                if isinstance(value, str):
                    value = self._read(self._path(name, value), hashes, name, number, misplaced)
                content[name].append(value)
                size += len(value or b"")
            if size >= PARTITION_BYTES:
                yield _replaced(rows, begin, number + 1, content, misplaced, bad)
                content, misplaced = {name: [] for name in names}, {}
                bad, begin, size = [], number + 1, 0
        if begin < len(rows.keys) or bad or rows.skipped:
            last = _replaced(rows, begin, len(rows.keys), content, misplaced, bad)
            last.skipped = rows.skipped
            yield last

    def _path(self, name: str, cell: str) -> str:
        return self._patterns.get(name, "{}").replace("{}", cell)

    def _read(self, path: str, hashes: Mapping[str, str], name: str, row: int, bad: dict[int, str]) -> bytes | None:
        reason = self._misplaced(path)
        sha256 = hashes.get(normal(path)) if reason is None else None
        if sha256 is None:
            bad.setdefault(row, f"{name}: {path!r}: {reason or UNLISTED}")
            return None
        try:
            content = (self._root / path).read_bytes()
        except OSError as error:
            raise Failed(path, error.strerror, "every listed file must be readable", "fix it, or its row") from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise other_content(path)
        return content

    def _misplaced(self, path: str) -> str | None:
        """Return why a path is not that of a file below the folder."""
        if not path or not path.isprintable():
            return "not a printable path"
        if path.startswith(("/", "\\")) or ":" in path.partition("/")[0] or ".." in PurePosixPath(path).parts:
            return "not a path below the source"
        real = os.path.realpath(self._root / path)
        if not real.startswith(self._real.rstrip("/") + "/"):
            return "a link that leads out of the source"
        return None if Path(real).is_file() else "no such file"


def normal(path: str) -> str:
    """Return one spelling for all of a path."""
    return PurePosixPath(path).as_posix()


def _embedded(column: pa.Array) -> pa.Array | None:
    """Return a column that holds the bytes of files, or nothing; None where it has paths."""
    if pt.is_struct(column.type):
        inside = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
        if "bytes" not in inside:
            return None
        column = inside["bytes"]
        if "path" in inside and pc.any(pc.and_(pc.is_null(column), pc.is_valid(inside["path"]))).as_py():
            return None
    if pt.is_null(column.type):
        return column.cast(pa.large_binary())
    if is_octets(column.type):
        return column
    return None


def _cells(column: pa.Array) -> list[bytes | str | None]:
    """Return the bytes or the path in each cell; of a struct as Hugging Face writes it, the bytes if there are any."""
    values = column.to_pylist()
    if pt.is_struct(column.type):
        return [None if value is None else value.get("bytes") or value.get("path") for value in values]
    return values


def _replaced(
    rows: Rows, begin: int, end: int, content: Mapping[str, list], misplaced: Mapping[int, str], bad: list[Bad]
) -> Rows:
    part = selected(rows, begin, end)
    keys = part.keys
    bad = [*bad, *(Bad(keys[row - begin].as_py(), why, rows.place(row)) for row, why in sorted(misplaced.items()))]
    good = [row for row in range(end - begin) if begin + row not in misplaced]
    columns = {**part.columns, **{name: pa.array(values, pa.large_binary()) for name, values in content.items()}}
    chosen = pa.array(good, pa.int64())
    return Rows(
        {name: column.take(chosen) for name, column in columns.items()},
        keys.take(chosen),
        lambda row: rows.place(begin + good[row]),
        None if part.splits is None else part.splits.take(chosen),
        None if part.hashes is None else part.hashes[good],
        bad,
    )


def selected(rows: Rows, begin: int, end: int) -> Rows:
    """Return the rows from `begin` to `end`, without bad ones."""
    columns = {name: column.slice(begin, end - begin) for name, column in rows.columns.items()}
    splits = None if rows.splits is None else rows.splits.slice(begin, end - begin)
    hashes = None if rows.hashes is None else rows.hashes[begin:end]
    return Rows(columns, rows.keys.slice(begin, end - begin), lambda row: rows.place(begin + row), splits, hashes)
