"""Hashes of source files: computed once for an unchanged file, and again for one that only looks unchanged."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tasks.errors import Failed
from tasks.sources import files
from tasks.sources.files import Folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "SETTLED_NS", 0)  # files as young as these count as settled
    (tmp_path / "data").mkdir()
    for name in "abc":
        (tmp_path / "data" / name).write_text(f"{name}{name}")
    return tmp_path / "data"


def sha256(*contents: str) -> list[str]:
    return [hashlib.sha256(content.encode()).hexdigest() for content in contents]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened to be hashed."""
    opened: list[str] = []

    def observed(path: str, mode: str = "r") -> object:
        opened.append(Path(path).name)
        return open(path, mode)

    monkeypatch.setattr(files, "open", observed, raising=False)
    return opened


def test_an_unchanged_file_is_not_read_again(folder: Path, read: list[str], tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    for _ in range(2):
        assert Folder(folder, tmp_path / "memory").of(names) == sha256("aa", "bb", "cc")
    assert sorted(read) == names


@pytest.mark.parametrize("how", ["written", "replaced", "grown"])
def test_a_file_that_was_changed_is_read_again_whatever_its_time_says(
    how: str, folder: Path, read: list[str], tmp_path: Path
) -> None:
    """As after `cp -p`, `rsync -t` or `touch -r`: another content of the same size and modification time."""
    assert Folder(folder, tmp_path / "memory").of(["a", "b"]) == sha256("aa", "bb")
    before = (folder / "b").stat()
    content = "xx" if how != "grown" else "xxx"
    if how == "replaced":
        (tmp_path / "other").write_text(content)
        os.utime(tmp_path / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
        shutil.move(tmp_path / "other", folder / "b")
    else:
        (folder / "b").write_text(content)
    os.utime(folder / "b", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (folder / "b").stat().st_mtime_ns == before.st_mtime_ns
    read.clear()
    assert Folder(folder, tmp_path / "memory").of(["a", "b"]) == sha256("aa", content)
    assert read == ["b"]


def test_a_file_that_is_too_young_is_read_again(folder: Path, read: list[str], tmp_path: Path) -> None:
    """Its next change could have the same time."""
    files.SETTLED_NS = 3600 * 10**9  # put back by the fixture
    for _ in range(2):
        Folder(folder, tmp_path / "memory").of(["a"])
    assert read == ["a", "a"]


def test_a_file_that_changes_while_it_is_hashed_or_read_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = Folder(folder, None)
    [listed] = hashes.of(["a"])
    (folder / "a").write_text("zz")
    with pytest.raises(Failed, match="other content than was listed"):
        hashes.read("a", listed)
    with pytest.raises(Failed, match="other content than was listed"), hashes.stream("a", listed) as stream:
        stream.read()

    def changing(path: str, mode: str = "r") -> object:
        opened = open(path, mode)  # noqa: SIM115
        (folder / "b").write_text("bbb")
        return opened

    monkeypatch.setattr(files, "open", changing, raising=False)
    with pytest.raises(Failed) as failed:
        hashes.of(["b"])
    assert "b" in failed.value.field
