"""TFRecord files of `tf.train.Example`, read without TensorFlow; `tasks.sources.encoding` writes them.

A record is: length (uint64, little-endian), masked CRC-32C of the length, payload, masked CRC-32C of the payload.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed

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
