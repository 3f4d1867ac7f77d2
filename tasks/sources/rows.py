"""Rows with their number in a file: their keys and places, and which of them cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.sources import Bad, Rows
from tasks.sources.hashes import Hashes

DIGITS = 9
"""Digits of a row's number in a key, so that keys sort as rows do."""

NUL = "a NUL byte"

Columns = Mapping[str, pa.Array]


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


def selected(rows: Rows, begin: int, end: int) -> Rows:
    """Return the rows from `begin` to `end`, without bad ones."""
    columns = {name: column.slice(begin, end - begin) for name, column in rows.columns.items()}
    splits = None if rows.splits is None else rows.splits.slice(begin, end - begin)
    hashes = None if rows.hashes is None else rows.hashes[begin:end]
    return Rows(columns, rows.keys.slice(begin, end - begin), lambda row: rows.place(begin + row), splits, hashes)


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
                    bad.setdefault(row, f"{name}: byte {error.start} (0x{octets[error.start]:02x}) is not UTF-8")
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
