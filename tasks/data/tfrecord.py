"""TFRecord files of `tf.train.Example`, written and read without TensorFlow.

A record is: length (uint64, little-endian), masked CRC-32C of the length, payload, masked CRC-32C of the payload. The
features of an example are sorted by name, so that its bytes are a function of its values.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tasks.data.features import Value
from tasks.errors import Failed

HEADER, FOOTER = 12, 4
MAX_JOINED = 1 << 15
"""Examples up to this many bytes are joined before they are written; larger payloads are not copied."""

Offsets = NDArray[np.uint64]
Parsed = dict[str, list[bytes] | NDArray[np.int64] | NDArray[np.float32]]


# Writing


def encode(example: Mapping[str, Value]) -> list[bytes]:
    """Serialise a `tf.train.Example`; return its bytes in parts, to be written one after another.

    bytes become a `bytes_list`, ints and integer arrays an `int64_list`, floats and float arrays a `float_list`. The
    result equals protobuf's deterministic serialisation, except that protobuf sorts a name after its extensions.
    """
    parts: list[bytes] = [b""]
    size = 0
    for name in sorted(example):
        kind, content = _list_of(example[name])
        key = _name_field(name)
        inner = len(content[0]) + len(content[1])
        feature = 1 + len(_varint(inner)) + inner
        entry = len(key) + 1 + len(_varint(feature)) + feature
        head = b"\x0a" + _varint(entry) + key + b"\x12" + _varint(feature) + kind + _varint(inner) + content[0]
        parts += (head, content[1])
        size += len(head) + len(content[1])
    parts[0] = b"\x0a" + _varint(size)
    return parts


class RecordWriter:
    """Writes records to a file, as a context manager.

    `offsets`: uint64 [n + 1], the offset of each record and the file's size; complete when the context ends.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by __exit__
        self._ends = array("Q", [0])

    def write(self, parts: list[bytes]) -> None:
        """Append a record whose payload is the concatenation of these parts."""
        size = sum(map(len, parts))
        if size <= MAX_JOINED:
            parts = [b"".join(parts)]
        crc = 0
        for part in parts:
            crc = google_crc32c.extend(crc, part)
        length = size.to_bytes(8, "little")
        head = length + _masked(google_crc32c.value(length))
        self._file.writelines((head, *parts, _masked(crc)))
        self._ends.append(self._ends[-1] + HEADER + size + FOOTER)

    @property
    def offsets(self) -> Offsets:
        return np.array(self._ends, dtype="<u8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _list_of(value: Value) -> tuple[bytes, tuple[bytes, bytes]]:
    """Return the tag of a `Feature`'s list, and the list's message as head and payload."""
    if isinstance(value, bytes):
        return b"\x0a", (b"\x0a" + _varint(len(value)), value)
    if isinstance(value, int) and value >= 0:
        number = _varint(value)
        return b"\x1a", (b"\x0a" + _varint(len(number)), number)
    numbers = np.asarray(value)
    if numbers.dtype.kind in "iub":
        tag, payload = b"\x1a", _pack(numbers.astype(np.int64).ravel())
    elif numbers.dtype.kind == "f":
        tag, payload = b"\x12", numbers.astype("<f4").tobytes()
    else:
        raise TypeError(f"a feature is bytes, integers or floats, not {numbers.dtype}")
    return tag, (b"\x0a" + _varint(len(payload)) if payload else b"", payload)


def _pack(numbers: NDArray[np.int64]) -> bytes:
    """Encode integers as varints."""
    groups = (numbers.view(np.uint64)[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)) & np.uint64(127)
    lengths = 10 - (groups[:, ::-1] != 0).argmax(axis=1)
    lengths[numbers == 0] = 1
    positions = np.arange(10)
    octets = groups.astype(np.uint8) | np.where(positions < lengths[:, None] - 1, 128, 0).astype(np.uint8)
    return octets[positions < lengths[:, None]].tobytes()


@lru_cache(maxsize=1 << 16)
def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


@lru_cache(maxsize=1 << 12)
def _name_field(name: str) -> bytes:
    encoded = name.encode()
    return b"\x0a" + _varint(len(encoded)) + encoded


def _masked(crc: int) -> bytes:
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


# Reading


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
        if _masked(google_crc32c.value(payload)) != self._bytes[end - FOOTER : end]:
            raise self._damage(begin, "a payload with another CRC-32C")
        return payload

    def _length(self, begin: int) -> int:
        head = self._bytes[begin : begin + HEADER]
        if len(head) < HEADER or _masked(google_crc32c.value(head[:8])) != head[8:]:
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
