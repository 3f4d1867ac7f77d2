"""Durable atomic writes, checksums of files, and canonical JSON."""

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

PARTIAL = ".partial"
"""Ends the name of a file that is being written."""

CHUNK = 4 << 20


@dataclass(frozen=True)
class Checksums:
    """Size, CRC-32C and SHA-256 of a file."""

    bytes: int
    crc32c: str
    sha256: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def checksums(path: Path) -> Checksums:
    """Compute size and checksums of a file, which is read once."""
    size, crc, sha = 0, 0, hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            crc = google_crc32c.extend(crc, chunk)
            sha.update(chunk)
    return Checksums(size, f"{crc:08x}", sha.hexdigest())


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def pretty(value: Any) -> bytes:
    """Return reproducible JSON for people: sorted keys, indented."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def sync(path: Path) -> None:
    """Sync a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it is synced and renamed to `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield partial
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    with replacing(path) as partial:
        partial.write_bytes(content)
