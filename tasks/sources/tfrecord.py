"""TFRecord files of `tf.train.Example`, as others have written them, read without TensorFlow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from tasks.sources import Rows, not_utf8
from tasks.sources.hashes import hashes_of
from tasks.sources.kinds.columns import check_columns, shape_of
from tasks.sources.record_files import HEADER, RecordFile, decode, frames, masked
from tasks.sources.streams import compression_of, open_stream, reading, whole
from tasks.sources.table_files import Numbered, Part, Tables, batches
from tasks.sources.values import columns_of

GZIP = b"\x1f\x8b"
"""How a file begins that is compressed; its name need not say so."""

ENDING = re.compile(r"\.tfrecord")
SHARD = re.compile(r"\.tfrecords?(-\d+-of-\d+)?(\.gz|\.zst|\.bz2)?$")
"""How the name of a file of examples ends."""


class Tfrecord(Tables):
    """Has a column for each of the config; a feature that an example lacks, or that has no values, is null.

    An example with a feature that the config does not name, or with another number of values, is bad.
    """

    def check(self, path: str) -> None:
        for payload in payloads(self.root, path):
            with_all = {**self.config.columns, **dict.fromkeys(_names(payload))}
            check_columns(self.config, with_all, f"{path} row 1")
            return

    def parts(self, path: str, target: int) -> Iterator[Part]:
        size = (self.root / path).stat().st_size
        if _compression(self.root, path):
            yield Part(path, size)
            return
        with reading(path):
            offsets = RecordFile(self.root / path).offsets
        begin = 0
        while begin < len(offsets) - 1:
            end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + np.uint64(target))))
            end = min(end, len(offsets) - 1)
            first, last = int(offsets[begin]), int(offsets[end])
            yield Part(path, last - first, (first, last, begin))
            begin = end

    def rows(self, path: str, where: tuple[Any, ...], columns: list[str], hashed: bool) -> Iterator[Rows]:
        begin, end, row = where or (0, None, 0)
        for batch in batches(self._payloads_of(path, begin, end), len):
            yield self._rows(path, row, batch, columns, hashed)
            row += len(batch)

    def _payloads_of(self, path: str, begin: int, end: int | None) -> Iterator[bytes]:
        """Yield the payloads of a file, or of a range of its bytes."""
        if end is None:
            yield from payloads(self.root, path)
            return
        with reading(path), (self.root / path).open("rb") as file:
            file.seek(begin)
            read = frames(partial(whole, file), path, begin)
            while file.tell() < end:
                yield next(read)

    def _rows(self, path: str, first: int, payloads: list[bytes], names: list[str], hashed: bool) -> Rows:
        types = {name: self.config.columns[name] for name in names}
        columns, bad = columns_of(payloads, types, lambda item: self._fitting(item, names))
        hashes = hashes_of(payloads) if hashed else None
        return Numbered(path, first, len(payloads)).rows(columns, bad, hashes=hashes)

    def _fitting(self, payload: bytes, names: list[str]) -> dict[str, Any]:
        """Return the values of an example; raises `ValueError` where it is none, or not as the config says."""
        try:
            example = decode(payload)
        except ValueError as error:
            raise ValueError(f"not a tf.train.Example: {error}") from None
        if unknown := [name for name in sorted(example) if name not in self.config.columns]:
            raise ValueError(f"a feature {unknown[0]!r} that source.columns does not name")
        return {name: self._value(name, example[name]) for name in names if len(example.get(name, ()))}

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: shape_of(kind) for name, kind in self.config.columns.items() if kind.startswith("number[")}

    def _value(self, name: str, values: Any) -> Any:
        """Return a scalar or an array; raises `ValueError` for what is not as the config says."""
        shape = self._shapes.get(name, ())
        size = math.prod(shape)
        if len(values) != size:
            raise ValueError(f"{name}: {len(values):,} values, not {size:,}")
        if shape and isinstance(values, list):
            raise ValueError(f"{name}: bytes, and the column is of type {self.config.columns[name]}")
        if shape:
            return values
        value = values[0] if isinstance(values, list) else values[0].item()
        if name in self.files:
            if isinstance(value, bytes):
                return value
            raise ValueError(f"{name}: a number, and an {self.config.columns[name]} is the bytes of its file")
        if not isinstance(value, bytes):
            return value
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: {not_utf8(error)}") from None

    def _is_table(self, name: str) -> bool:
        return not ENDING.search(name.lower()) or is_shard(name)


def payloads(root: Path, path: str) -> Iterator[bytes]:
    """Yield the payloads of a file below a folder, which may be compressed."""
    with open_stream(root, path, _compression(root, path)) as stream:
        yield from frames(partial(whole, stream), path)


def is_shard(name: str) -> bool:
    """Return whether a name is that of a TFRecord file: `x.tfrecord`, `x.tfrecord-00000-of-00002`, `x.tfrecords.gz`."""
    return SHARD.search(name.lower()) is not None


def _compression(root: Path, path: str) -> str | None:
    """Return the compression of a file, by its name or its first bytes."""
    if compression := compression_of(path):
        return compression
    with reading(path), (root / path).open("rb") as file:
        head = file.read(HEADER)
    is_frame = masked(google_crc32c.value(head[:8])) == head[8:]
    return "gzip" if head.startswith(GZIP) and not is_frame else None


def _names(payload: bytes) -> list[str]:
    try:
        return sorted(decode(payload))
    except ValueError:  # a row that is bad
        return []
