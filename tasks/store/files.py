"""Durable writes, and what a file's bytes are summed up to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import google_crc32c

CHUNK = 4 << 20


@dataclass(frozen=True)
class Sums:
    """Size and checksums of a file: crc32c to check fast, sha256 to be sure."""

    bytes: int
    crc32c: str
    sha256: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def sums(path: Path) -> Sums:
    """Read the file once; both checksums come from the same bytes."""
    size, crc, sha = 0, 0, hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            crc = google_crc32c.extend(crc, chunk)
            sha.update(chunk)
    return Sums(size, f"{crc:08x}", sha.hexdigest())


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def pretty(value: Any) -> bytes:
    """JSON for people; as repeatable as the canonical one."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def sync(path: Path) -> None:
    """Make a file or folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to; the whole content appears under `path` at once, durably, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Replace a file by these bytes, at once and durably."""
    with replacing(path) as partial:
        partial.write_bytes(content)
