"""Files of JSON lines that are only appended to, with one rule for ends that were torn off, and one reader.

A line counts when it is whole: it ends with a line break. What a killed process, a full disk or a loss of power left
without one is removed by the next line that is written. A whole line that is no JSON object is left out, and so costs
nothing but itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.store import files

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


def sync(path: Path) -> None:
    """Sync a file, if there is one, and the folder that has its name."""
    if path.exists():
        files.sync(path)
        files.sync(path.parent)


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
