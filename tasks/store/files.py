"""Files in canonical form, read, written and synced; and files of lines that only grow.

A line counts when it is whole: it ends with a line break. What a killed process, a full disk or a loss of power left
without one is removed by the next line that is written. A whole line that is no JSON object is left out, and so costs
nothing but itself.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import google_crc32c

if TYPE_CHECKING:
    from numpy.typing import NDArray

ZIP_DATE = (1980, 1, 1, 0, 0, 0)
"""The time of the entries of archives with reproducible bytes."""

PARTIAL = ".partial"
"""Ends the name of a file that is being written."""

CHUNK = 4 << 20

ABSENT = (FileNotFoundError, NotADirectoryError)
"""Errors of a file that is not there; any other error of a read says nothing of the file."""

PAUSES = (0.1, 0.5, 2.0)
"""Seconds before a read is tried again."""

StatKey = list[int]
"""(size, mtime_ns, ctime_ns, inode): while these are equal, the content is taken to be equal."""

Read = TypeVar("Read")

NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""Error numbers of a file system without links, or with no more of them."""


@dataclass(frozen=True)
class Checksums:
    """Size, CRC-32C and SHA-256 of a file."""

    bytes: int
    crc32c: str
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return them by name."""
        return asdict(self)


def retried(path: Path, read: Callable[[Path], Read], pauses: Sequence[float] = PAUSES) -> Read:
    """Return `read(path)`; an error that may pass (too many open files, a stale handle, EIO) is tried again.

    Raises:
        OSError: at once for a file that is not there; else that of the last attempt, with the file's name.
    """
    for pause in (*pauses, None):
        try:
            return read(path)
        except ABSENT:
            raise
        except OSError as error:
            if pause is None:
                raise OSError(error.errno, error.strerror, str(path)) from error
            time.sleep(pause)
    raise AssertionError


def stat_of(path: str | Path) -> StatKey:
    """Return what says that a file has not changed."""
    status = os.stat(path)  # noqa: PTH116 - a Path for each of many files takes longer than the call
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


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


def link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copyfile(source, target)
        sync(target)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it is synced and renamed to `path` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid4().hex[:12]}{PARTIAL}")  # process ids repeat in other containers
    try:
        yield partial
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def clear(folder: Path, seconds: float = 0.0) -> None:
    """Remove the files that killed processes were writing in a folder; those that are so old, if others write there."""
    for path in folder.rglob(f"*{PARTIAL}"):
        with suppress(FileNotFoundError):
            if seconds == 0 or time.time() - path.stat().st_mtime > seconds:
                path.unlink()


def write(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    with replacing(path) as partial:
        partial.write_bytes(content)


TAIL = 1 << 16
"""Bytes that are read at a time from the end of a file."""


def append(path: Path, row: dict[str, Any]) -> None:
    """Append a row as one line: sorted keys, no spaces.

    Raises `OSError` where it cannot be written; the file is then as it was.
    """
    line = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    with _opened(path) as descriptor:
        end = _end(descriptor)
        os.ftruncate(descriptor, end)
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        except OSError:
            os.ftruncate(descriptor, end)
            raise


def sync_lines(path: Path) -> None:
    """Sync a file, if there is one, and the folder that has its name."""
    if path.exists():
        sync(path)
        sync(path.parent)


def read(path: Path, start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the rows from byte `start` on, each with the offset of the next line; nothing where there is no file."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        file.seek(start)
        for line in file:
            start += len(line)
            if (row := _row(line)) is not None:
                yield row, start


def last(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows from the last one back to the first."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        end, rest = file.seek(0, os.SEEK_END), b""
        while end:
            begin = max(0, end - TAIL)
            file.seek(begin)
            first, *lines = (file.read(end - begin) + rest).splitlines(keepends=True)
            yield from filter(None, map(_row, reversed(lines)))
            end, rest = begin, first
        if (row := _row(rest)) is not None:
            yield row


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line; None where it is not whole, or no JSON object."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(descriptor: int) -> int:
    """Return the offset after the last whole line."""
    end = os.fstat(descriptor).st_size
    while end:
        begin = max(0, end - TAIL)
        if (found := os.pread(descriptor, end - begin, begin).rfind(b"\n")) >= 0:
            return begin + found + 1
        end = begin
    return 0


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an `.npz` file with reproducible bytes: `numpy.savez` stores the time of each entry."""
    import numpy as np

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", ZIP_DATE), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
