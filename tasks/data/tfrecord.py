"""TFRecord files of `tf.train.Example`, read without TensorFlow; `tasks.data.encoding` writes them.

A record is: length (uint64, little-endian), masked CRC-32C of the length, payload, masked CRC-32C of the payload.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed

HEADER, FOOTER = 12, 4

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
        return Failed(f"{self.path} at byte {offset}", saw, "a TFRecord must be whole", "make these records again")


def decode(payload: bytes) -> Parsed:
    """Parse a serialised `tf.train.Example`: by feature a list of bytes, int64 [k] or float32 [k]."""
    parsed: Parsed = {}
    for _, features in _fields(payload, 0, len(payload)):
        for _, entry in _fields(payload, *features):
            name, content = "", (0, 0)
            for number, span in _fields(payload, *entry):
                if number == 1:
                    name = payload[slice(*span)].decode()
                else:
                    content = span
            parsed[name] = _values(payload, content)
    return parsed


def _values(payload: bytes, feature: tuple[int, int]) -> list[bytes] | NDArray[np.int64] | NDArray[np.float32]:
    for kind, span in _fields(payload, *feature):
        chunks = [payload[slice(*value)] for _, value in _fields(payload, *span)]
        if kind == 1:
            return chunks
        if kind == 2:
            return np.frombuffer(b"".join(chunks), dtype="<f4")
        return _unpack(np.frombuffer(b"".join(chunks), dtype=np.uint8))
    return []


def _fields(payload: bytes, begin: int, end: int) -> Iterable[tuple[int, tuple[int, int]]]:
    """Yield number and span of each length-delimited field of a message; a packed Example has no others."""
    while begin < end:
        tag = payload[begin]
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7} in an Example; only packed lists are read here")
        begin += 1
        size = shift = 0
        while True:
            octet = payload[begin]
            begin += 1
            size |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        yield tag >> 3, (begin, begin + size)
        begin += size


def _unpack(octets: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Decode varints to integers."""
    if octets.size == 0:
        return np.empty(0, np.int64)
    ends = np.flatnonzero(octets < 128)
    begins = np.concatenate(([0], ends[:-1] + 1))
    shifts = 7 * (np.arange(octets.size) - np.repeat(begins, ends - begins + 1))
    groups = (octets & 127).astype(np.uint64) << shifts.astype(np.uint64)
    return np.bitwise_or.reduceat(groups, begins).view(np.int64)
