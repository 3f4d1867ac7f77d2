"""Rows of a source by number, and their content hashes.

The hash of a row decides its split where no key is named, so it must not depend on how columns are used: neither on
their types in the config nor on the rows around it.
"""

from __future__ import annotations

import datetime
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.sources import Bad, Rows
from tasks.sources.encoding import Encoded, binary_of, join, lengths_of, values_of
from tasks.sources.hashes import Hashes, digests

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


WRITTEN = (int, Decimal, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, PurePath)
"""Types whose text is the value."""


def hashes_of(contents: Sequence[bytes]) -> Hashes:
    """Return a 64-bit BLAKE2b hash of each row's bytes, uint64 [n]."""
    return digests(contents)[:, 0]


def hashes_of_rows(rows: Rows, columns: Mapping[str, pa.Array], keys: Hashes | None) -> Hashes:
    """Return the hash by which each row is recognised, uint64 [rows]: of its key, or of all that the source has of it.

    Args:
        columns: those of `rows`.
        keys: hashes of the keys; None where no key is named.
    """
    if keys is not None:
        return keys
    return hashes_of_columns(columns, len(rows.keys)) if rows.hashes is None else rows.hashes


def hashes_of_columns(columns: Mapping[str, pa.Array | pa.ChunkedArray], rows: int) -> Hashes:
    """Return a hash of each row of typed columns, uint64 [rows], whatever their order.

    Integers of any width are equal where their values are, as are texts of any of Arrow's types.
    """
    if not columns:
        return hashes_of([b""] * rows)
    parts: list[Encoded] = []
    for name in sorted(columns):
        cells = _cells(columns[name])
        there, cells = np.asarray(cells.is_valid()), pc.fill_null(cells, b"")
        marks = np.where(there, lengths_of(cells) + 1, 0).astype("<i8")  # 0 for a missing cell
        parts += [binary_of(marks.view(np.uint8).reshape(rows, 8)), cells]
    return hashes_of(values_of(join(*parts)))


def bytes_of(value: Any) -> bytes:
    """Return bytes that are equal where two values are: of scalars, arrays and tensors, lists, and dicts in any order.

    Of a value of another type they have the name of the type alone, as its text may be another in each process.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return b"-"
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray | memoryview):
        return b"y" + bytes(value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return b"a" + _framed([f"{value.dtype.str}{value.shape}".encode(), value.tobytes()])
    if isinstance(value, np.ndarray | list | tuple):
        return b"l" + _framed([bytes_of(item) for item in value])
    if isinstance(value, Mapping):
        pairs = sorted((bytes_of(name), bytes_of(item)) for name, item in value.items())
        return b"d" + _framed([part for pair in pairs for part in pair])
    if isinstance(value, WRITTEN):
        return b"w" + str(value).encode()
    if hasattr(value, "__array__"):  # a tensor
        return bytes_of(np.asarray(value))
    return b"o" + f"{type(value).__module__}.{type(value).__qualname__}".encode()


def _framed(parts: Sequence[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def _cells(column: pa.Array | pa.ChunkedArray) -> Encoded:
    """Return the cells of a column as binary values, a missing one as null."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        texts = values if _is_binary(values.type) else values.cast(pa.string())
        return texts.cast(pa.large_binary())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # of nested values, and of what has no text
        return pa.array([None if each is None else bytes_of(each) for each in values.to_pylist()], pa.large_binary())


def _is_binary(kind: pa.DataType) -> bool:
    return pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
