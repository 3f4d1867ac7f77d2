"""Columns to serialised `tf.train.Example`s and framed TFRecords, a batch at a time, without a Python call per value.

The features of an example are sorted by name and each is there once, so that the bytes are a function of the values.
They equal protobuf's deterministic serialisation, except that protobuf sorts a name after its extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.sources.record_files import masked

FEW = 1 << 16
"""Lengths below this are looked up in a table."""

Encoded: TypeAlias = pa.LargeBinaryArray
"""Binary values, one a row."""

NOTHING = pa.scalar(b"", pa.large_binary())


def binary_of(matrix: NDArray[np.uint8]) -> Encoded:
    """Return the rows of uint8 [n, size] as binary values."""
    count, size = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int64) * size
    return Encoded.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    )


def ragged(matrix: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Encoded:
    """Return the first `lengths[i]` bytes of each row of uint8 [n, size] as binary values."""
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    content = matrix[np.arange(matrix.shape[1]) < lengths[:, None]]
    return Encoded.from_buffers(
        pa.large_binary(), len(matrix), [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(content)]
    )


def sizes_of(values: Encoded) -> NDArray[np.int64]:
    """Return the number of bytes of each value, int64 [n]."""
    return np.asarray(pc.binary_length(values), dtype=np.int64)


def by_length(lengths: NDArray[np.int64], make: Callable[[int], bytes]) -> Encoded:
    """Return `make(length)` for each of the lengths; `make` is called once for each different one."""
    if len(lengths) and lengths.max() < FEW:
        present = np.flatnonzero(np.bincount(lengths))
        positions = np.zeros(int(lengths.max()) + 1, np.int64)
        positions[present] = np.arange(len(present))
        inverse = positions[lengths]
    else:
        present, inverse = np.unique(lengths, return_inverse=True)
    table = pa.array([make(int(length)) for length in present], pa.large_binary())
    return table.take(pa.array(inverse))


def join(*parts: Encoded) -> Encoded:
    """Concatenate binary values row by row."""
    return pc.binary_join_element_wise(*parts, NOTHING) if len(parts) > 1 else parts[0]


def concatenated(items: Encoded, counts: NDArray[np.int64]) -> Encoded:
    """Return consecutive values joined in groups of these counts, int64 [n]."""
    _, offsets, content = items.buffers()
    ends = np.frombuffer(offsets, np.int64)[items.offset : items.offset + len(items) + 1]
    groups = np.ascontiguousarray(ends[np.concatenate(([0], np.cumsum(counts)))])
    whole = content if content is not None else pa.py_buffer(b"")
    return Encoded.from_buffers(pa.large_binary(), len(counts), [None, pa.py_buffer(groups), whole])


def values_of(values: Encoded) -> list[bytes]:
    """Return binary values as bytes, without a pyarrow scalar for each."""
    _, offsets, content = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1].tolist()
    whole = memoryview(content) if content is not None else memoryview(b"")
    return [bytes(whole[begin:end]) for begin, end in pairwise(ends)]


def varint(number: int) -> bytes:
    """Encode a non-negative integer as protobuf does, seven bits a byte."""
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def bytes_entry(name: str, values: Encoded) -> list[Encoded]:
    """Return the entry of a feature with a `bytes_list` of one value a row, in parts to be joined."""
    entry = _entry(name, b"\x0a")
    return [by_length(sizes_of(values), lambda length: entry(b"\x0a" + varint(length), length)), values]


def floats_entry(name: str, values: NDArray[np.float32]) -> list[Encoded]:
    """Return the entry of a feature with a `float_list` of float32 [n, size], in parts to be joined."""
    count, size = values.shape
    head = _entry(name, b"\x12")((b"\x0a" + varint(4 * size)) if size else b"", 4 * size)
    matrix = np.empty((count, len(head) + 4 * size), np.uint8)
    matrix[:, : len(head)] = np.frombuffer(head, np.uint8)
    matrix[:, len(head) :] = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(count, 4 * size)
    return [binary_of(matrix)]


def bytes_list_entry(name: str, items: Encoded, counts: NDArray[np.int64]) -> list[Encoded]:
    """Return the entry of a feature with a `bytes_list` of some of the consecutive `items` a row, in parts to be
    joined; `counts`: how many, int64 [n]."""
    content = concatenated(join(by_length(sizes_of(items), lambda length: b"\x0a" + varint(length)), items), counts)
    entry = _entry(name, b"\x0a")
    return [by_length(sizes_of(content), lambda length: entry(b"", length)), content]


def integer_list_entry(name: str, values: NDArray[np.int64], counts: NDArray[np.int64]) -> list[Encoded]:
    """Return the entry of a feature with an `int64_list` of some of the consecutive `values` a row, in parts to be
    joined; `counts`: how many, int64 [n]."""
    content = concatenated(_varints(values)[0], counts)
    entry = _entry(name, b"\x1a")
    return [
        by_length(sizes_of(content), lambda length: entry(b"\x0a" + varint(length) if length else b"", length)),
        content,
    ]


def integer_entry(name: str, values: NDArray[np.int64]) -> list[Encoded]:
    """Return the entry of a feature with an `int64_list` of one value a row, in parts to be joined."""
    payload, lengths = _varints(values)
    entry = _entry(name, b"\x1a")
    return [by_length(lengths, lambda length: entry(bytes((0x0A, length)), length)), payload]


def _varints(values: NDArray[np.int64]) -> tuple[Encoded, NDArray[np.int64]]:
    """Return integers as protobuf encodes them, and the number of bytes of each, int64 [n]."""
    unsigned = values.astype("<i8").view(np.uint64)
    groups = (unsigned[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)) & np.uint64(127)
    lengths = 10 - (groups[:, ::-1] != 0).argmax(axis=1)
    lengths[values == 0] = 1
    more = np.arange(10) < lengths[:, None] - 1
    return ragged(groups.astype(np.uint8) | np.where(more, 128, 0).astype(np.uint8), lengths), lengths


def _entry(name: str, kind: bytes) -> Callable[[bytes, int], bytes]:
    """Return a function from the head of a list and the bytes that follow it to all that is before them in an entry of
    a `Features` map: key, `Feature`, and list of this kind."""
    encoded = name.encode()
    key = b"\x0a" + varint(len(encoded)) + encoded + b"\x12"

    def head(inner: bytes, size: int) -> bytes:
        values = kind + varint(len(inner) + size) + inner
        feature = key + varint(len(values) + size) + values
        return b"\x0a" + varint(len(feature) + size) + feature

    return head


def examples(entries: Mapping[str, list[Encoded]]) -> Encoded:
    """Return serialised `Example`s from the entry of each feature."""
    parts = [part for name in sorted(entries) for part in entries[name]]
    size = sum(sizes_of(part) for part in parts)
    assert isinstance(size, np.ndarray)
    return join(by_length(size, lambda length: b"\x0a" + varint(length)), *parts)


def framed(payloads: Encoded) -> tuple[pa.Buffer, NDArray[np.int64]]:
    """Return the TFRecord frames of payloads as one buffer, and the number of bytes of each, int64 [n]."""

    def head(length: int) -> bytes:
        size = length.to_bytes(8, "little")
        return size + masked(google_crc32c.value(size))

    checksums = np.fromiter(map(google_crc32c.value, values_of(payloads)), np.uint64, len(payloads))
    rotated = (checksums >> np.uint64(15) | checksums << np.uint64(17)) & np.uint64(0xFFFFFFFF)
    footer = ((rotated + np.uint64(0xA282EAD8)) & np.uint64(0xFFFFFFFF)).astype("<u4")
    frames = join(
        by_length(sizes_of(payloads), head), payloads, binary_of(footer.view(np.uint8).reshape(len(payloads), 4))
    )
    _, offsets, content = frames.buffers()
    ends = np.frombuffer(offsets, np.int64)[frames.offset : frames.offset + len(frames) + 1]
    return content[int(ends[0]) : int(ends[-1])] if content is not None else pa.py_buffer(b""), np.diff(ends)
