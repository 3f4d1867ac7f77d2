"""TFRecord files of `tf.train.Example`, read and written without TensorFlow.

A record is: length (uint64, little-endian), masked CRC-32C of the length, payload, masked CRC-32C of the payload.

Columns are serialised a batch at a time, without a Python call per value. The features of an example are sorted by name
and each is there once, so that the bytes are a function of the values. They equal protobuf's deterministic
serialisation, except that protobuf sorts a name after its extensions.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.sources.values import Encoded, binary_of, by_length, concatenated, join, ragged, sizes_of, values_of

HEADER, FOOTER = 12, 4

VARINT, DELIMITED, FIXED = 0, 2, {1: 8, 5: 4}
"""Wire types of protobuf; of fixed sizes the bytes."""
UNPACKED = {2: 5, 3: VARINT}
"""Wire types of single values of floats and integers, in lists that are not packed."""
LISTS = (1, 2, 3)
"""Numbers of the lists of a feature: of bytes, floats and integers."""
LONGEST = 10
"""Bytes of an integer at most."""

Offsets = NDArray[np.uint64]
Parsed = dict[str, list[bytes] | NDArray[np.int64] | NDArray[np.float32]]


def masked(crc: int) -> bytes:
    """Return the masked CRC-32C of the format."""
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


class RecordFile:
    """A TFRecord file: its payloads by number, each checked against both of its checksums when it is read."""

    def __init__(self, path: Path, offsets: Offsets | None = None) -> None:
        """Open a file; `offsets` are uint64 [n + 1], None to read them from the file.

        Raises:
            Failed: the offsets do not fit the file.
        """
        self.path = path
        with open(path, "rb") as file:
            size = path.stat().st_size
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self.offsets: Offsets = self._walk() if offsets is None else offsets
        if len(self.offsets) == 0 or int(self.offsets[-1]) != size:
            raise self._damage(
                size, f"{size} bytes, the index says {int(self.offsets[-1]) if len(self.offsets) else 0}"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> bytes:
        """Return a payload. Raises `Failed`, naming file and offset, if it is damaged."""
        begin, end = int(self.offsets[number]), int(self.offsets[number + 1])
        size = self._length(begin)
        if begin + HEADER + size + FOOTER != end:
            raise self._damage(begin, f"a frame of {HEADER + size + FOOTER} bytes, the index says {end - begin}")
        payload = self._bytes[begin + HEADER : end - FOOTER]
        if masked(google_crc32c.value(payload)) != self._bytes[end - FOOTER : end]:
            raise self._damage(begin, "a payload with another CRC-32C")
        return payload

    def _length(self, begin: int) -> int:
        head = self._bytes[begin : begin + HEADER]
        if len(head) < HEADER or masked(google_crc32c.value(head[:8])) != head[8:]:
            raise self._damage(begin, "a header that is cut or has another CRC-32C")
        return int(struct.unpack("<Q", head[:8])[0])

    def _walk(self) -> Offsets:
        ends = array("Q", [0])
        while ends[-1] < len(self._bytes):
            ends.append(ends[-1] + HEADER + self._length(ends[-1]) + FOOTER)
        return np.array(ends, dtype="<u8")

    def _damage(self, offset: int, saw: str) -> Failed:
        return damaged(self.path, offset, saw)


def damaged(path: Path | str, offset: int, saw: str) -> Failed:
    """Return the error of a file that is cut or was changed."""
    return Failed(f"{path} at byte {offset}", saw, "a TFRecord must be whole", "make these records again")


def frames(read: Callable[[int], bytes], path: str, begin: int = 0) -> Iterator[bytes]:
    """Yield the payloads of a stream, each checked against both of its checksums.

    Args:
        read: returns so many bytes, or all that there are.
        begin: where in the file it begins.

    Raises:
        Failed: it is damaged.
    """
    while head := read(HEADER):
        if len(head) < HEADER or masked(google_crc32c.value(head[:8])) != head[8:]:
            raise damaged(path, begin, "a header that is cut or has another CRC-32C")
        size = int(struct.unpack("<Q", head[:8])[0])
        payload, footer = read(size), read(FOOTER)
        if len(payload) < size or masked(google_crc32c.value(payload)) != footer:
            raise damaged(path, begin, "a payload that is cut or has another CRC-32C")
        yield payload
        begin += HEADER + size + FOOTER


def decode(payload: bytes) -> Parsed:
    """Parse a serialised `tf.train.Example`: by feature a list of bytes, int64 [k] or float32 [k].

    Raises:
        ValueError: it is none.
    """
    parsed: Parsed = {}
    for number, features in _fields(payload, 0, len(payload)):
        if number != 1:
            raise ValueError("a SequenceExample, or another message")
        for _, entry in _fields(payload, *features):
            name, contents = "", []
            for part, span in _fields(payload, *entry):
                if part == 1:
                    name = payload[slice(*span)].decode()
                elif part == 2:
                    contents.append(span)
            parsed[name] = _values(payload, contents)
    return parsed


def _values(payload: bytes, features: list[tuple[int, int]]) -> list[bytes] | NDArray[np.int64] | NDArray[np.float32]:
    """Return the values of a feature, whose message may come in parts: they are joined, and the last kind decides."""
    chunks, last = list[bytes](), 1
    for kind, span in (field for feature in features for field in _fields(payload, *feature)):
        if kind not in LISTS:
            continue
        if kind != last:
            chunks, last = [], kind
        chunks += [payload[slice(*value)] for _, value in _fields(payload, *span, UNPACKED.get(kind))]
    if last == 1:
        return chunks
    if last == 2:
        return np.frombuffer(b"".join(chunks), dtype="<f4")
    return _unpack(np.frombuffer(b"".join(chunks), dtype=np.uint8))


def _fields(payload: bytes, begin: int, end: int, wire: int | None = None) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield number and span of each length-delimited field of a message, and of those of another wire type.

    Raises:
        ValueError: the message is cut.
    """
    try:
        while begin < end:
            tag, begin = (payload[begin], begin + 1) if payload[begin] < 128 else _varint(payload, begin)
            kind = tag & 7
            if kind == DELIMITED:
                size, begin = (payload[begin], begin + 1) if payload[begin] < 128 else _varint(payload, begin)
            elif kind == VARINT:
                size = _varint(payload, begin)[1] - begin
            else:
                size = FIXED[kind]
            if begin + size > end:
                raise IndexError
            if kind in (DELIMITED, wire):
                yield tag >> 3, (begin, begin + size)
            begin += size
    except LookupError:
        raise ValueError("a field that is cut, or of no wire type") from None


def _varint(payload: bytes, begin: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    number = shift = 0
    while (octet := payload[begin]) > 127:
        number |= (octet & 127) << shift
        shift += 7
        begin += 1
    return number | octet << shift, begin + 1


def _unpack(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Decode varints to integers."""
    if octets.size == 0:
        return np.empty(0, np.int64)
    ends = np.flatnonzero(octets < 128)
    begins = np.concatenate(([0], ends[:-1] + 1))
    if len(ends) == 0 or ends[-1] != octets.size - 1 or (ends - begins).max() >= LONGEST:
        raise ValueError("an integer that is cut")
    shifts = 7 * (np.arange(octets.size) - np.repeat(begins, ends - begins + 1))
    groups = (octets & 127).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(groups, begins).view(np.int64)


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
