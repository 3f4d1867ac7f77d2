"""Disks that fail: small ones, to be filled, and files that cannot be read for a while."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.store import files

OPEN = io.open


def fill(path: Path) -> None:
    """Write until nothing more goes in, beside others who write."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


def break_reads(monkeypatch: pytest.MonkeyPatch, name: str, number: int, times: int) -> list[str]:
    """Let the first `times` openings of files of a name fail with an error number; return those that did so far."""
    failed: list[str] = []

    def opening(file: Any, *given: Any, **also: Any) -> Any:
        if not isinstance(file, int) and Path(os.fsdecode(file)).name == name and len(failed) < times:
            failed.append(os.fsdecode(file))
            raise OSError(number, os.strerror(number), os.fsdecode(file))
        return OPEN(file, *given, **also)

    monkeypatch.setattr(files, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(io, "open", opening)
    monkeypatch.setattr(builtins, "open", opening)
    return failed
