"""Splits and places of examples, by keyed hashes of each example alone.

The split is a hash of the example's group, of the key that the user named, or of the whole row as the source has it
(`tasks.records.assignment`); the place is a hash of its key. An example keeps both when others are added. The order
within a split does not depend on the number of shards.
"""

from __future__ import annotations

import datetime
import hashlib
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import fsum
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.draws import splitmix64
from tasks.sources.encoding import Encoded, binary_of, join, sizes_of, values_of

SPACE = 2**64

Handling = Literal["group", "drop", "keep"]
"""Values of `records.duplicates`."""

Hashes = NDArray[np.uint64]
"""[n]."""


def digests(values: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return the 128-bit BLAKE2b digest of each value, uint64 [n, 2]."""
    joined = b"".join(hashlib.blake2b(value, digest_size=16).digest() for value in values)
    return np.frombuffer(joined, "<u8").astype(np.uint64).reshape(-1, 2)


def keyed(hashes: Hashes, seed: int, purpose: str) -> Hashes:
    """Return uniform integers in [0, 2^64) from uniform ones, with a seed below 2^63 and a purpose."""
    key = hashlib.blake2b(purpose.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return splitmix64(splitmix64(hashes ^ np.uint64(int.from_bytes(key, "little"))))


def split_numbers(hashes: Hashes, shares: Mapping[str, float], seed: int) -> NDArray[np.int64]:
    """Return the split of each example as its number among the sorted names.

    Digests do not depend on the order of a mapping, so neither may this.
    """
    of_names = [shares[name] for name in sorted(shares)]
    ends = [int(fsum(of_names[: index + 1]) * SPACE) for index in range(len(of_names) - 1)]
    values = keyed(hashes, seed, "split")
    return np.sum([values >= np.uint64(min(end, SPACE - 1)) for end in ends], axis=0, dtype=np.int64)


def places(keys: Hashes, seed: int) -> Hashes:
    """Return the place of each example in its split, from the hashes of the keys."""
    return keyed(keys, seed, "place")


def shard_bounds(shards: int) -> list[tuple[int, int]]:
    """Return the places [start, stop) of each shard."""
    return [(number * SPACE // shards, (number + 1) * SPACE // shards) for number in range(shards)]


WRITTEN = (int, Decimal, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, PurePath)
"""Types whose text is the value."""


def hashes_of(contents: Sequence[bytes]) -> Hashes:
    """Return a 64-bit BLAKE2b hash of each row's bytes, uint64 [n]."""
    return digests(contents)[:, 0]


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
        marks = np.where(there, sizes_of(cells) + 1, 0).astype("<i8")  # 0 for a missing cell
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
