"""Every file of every kind of artifact, damaged in every way, is detected before its use, and named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import KINDS
from tasks.store.store import Store
from tests.support.homes import CommandHome


def cut(path: Path, _: bytes) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path, _: bytes) -> None:
    os.truncate(path, 0)


def removed(path: Path, _: bytes) -> None:
    path.unlink()


def flipped(path: Path, _: bytes) -> None:
    """One bit, in place; size and time as they were."""
    content, before = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 16
    with open(path, "r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapped(path: Path, other: bytes) -> None:
    """With another file of its size and time."""
    before = path.stat()
    double = path.with_name("double")
    double.write_bytes(other[: before.st_size].ljust(before.st_size, b"\n"))
    os.utime(double, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(double, path)


HARMS: tuple[Callable[[Path, bytes], None], ...] = (cut, emptied, removed, flipped, swapped)


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_harm_to_any_file_is_found_and_named(finished: CommandHome, tmp_path: Path, kind: str) -> None:
    artifacts = sorted((finished.root / "store" / kind).iterdir())
    assert artifacts
    for artifact in artifacts:
        path = tmp_path / kind / artifact.name
        shutil.copytree(artifact, path)
        look = lambda path=path: Store(tmp_path).fault(kind, path.name, path)  # noqa: E731
        assert look() is None, "and the verdict is remembered"
        files = sorted(file for file in path.rglob("*") if file.is_file())
        others = [file.read_bytes() for file in files]
        for number, file in enumerate(files):
            content = others[number]
            if not content:
                continue  # a shard to which no example fell
            name = file.relative_to(path).as_posix()
            for harm in HARMS:
                harm(file, next(other for other in (*others, b"other") if other != content))
                assert (look() or ("nothing",))[0] == name, f"{name} {harm.__name__}"
                file.write_bytes(content)
                assert look() is None
