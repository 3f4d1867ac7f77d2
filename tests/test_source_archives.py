"""Zip and tar files in place of folders: the same keys and bytes as of what is extracted, and no trust in them."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.sources import archives
from tasks.sources.archives import open_tree
from tasks.sources.kinds.folders import ImageFolderSource, TextFilesSource
from tests.support.raw_data import pictures, texts
from tests.support.rows import everything

Edit = Callable[[zipfile.ZipFile], None]


def zipped(folder: Path, path: Path, method: int = zipfile.ZIP_DEFLATED, below: str = "") -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, below + file.relative_to(folder).as_posix())
    return path


def tarred(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        archive.add(folder, ".")
    return path


def texts_of(path: Path, **more: Any) -> TextFilesSource:
    return TextFilesSource.model_validate({"path": str(path), "glob": "**/*.md", **more})


@pytest.mark.parametrize("example", ["file", "line", "paragraph"])
def test_an_archive_is_what_is_extracted_from_it(tmp_path: Path, example: str) -> None:
    folder = texts(tmp_path / "book")
    (folder / "part0/long.md").write_text(
        "".join(f"line {number} {os.urandom(20).hex()}\n" for number in range(60_000))
    )
    (folder / "part0/empty.md").touch()
    opened = texts_of(folder, example=example).open()
    listed = opened.fingerprint()
    expected = everything(opened)
    stored = zipped(folder, tmp_path / "stored.zip", zipfile.ZIP_STORED)
    inside = zipped(folder, tmp_path / "inside.zip", below="top/book/")
    for path in (zipped(folder, tmp_path / "b.zip"), stored, inside / "top/book", tarred(folder, tmp_path / "b.tar")):
        archived = texts_of(path, example=example).open()
        assert archived.fingerprint() == listed
        found = everything(archived)
        assert (found.keys, found.columns) == (expected.keys, expected.columns)
    assert archived.size() == opened.size()


def test_images_of_an_archive_become_the_same_records(tmp_path: Path, benches: Callable[[str], Workbench]) -> None:
    folder = pictures(tmp_path / "shapes")
    config = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3})
    made = []
    for path in (folder, zipped(folder, tmp_path / "shapes.zip"), tarred(folder, tmp_path / "shapes.tar")):
        bench = benches(f"of-{path.name}")
        conversion.build(bench, ImageFolderSource(path=str(path)), config)
        made.append({p.name: p.read_bytes() for p in bench.staging.root.rglob("*.tfrecord*") if p.name[0] != "."})
    assert made[0] and made[0] == made[1] == made[2]


def test_an_unchanged_archive_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(texts(tmp_path / "book"), tmp_path / "book.zip")
    monkeypatch.setattr("tasks.sources.archives.SETTLED_NS", 0)
    first = texts_of(path).open(tmp_path / "memory").fingerprint()
    monkeypatch.setattr(archives.Archive, "_chunks", None)
    assert texts_of(path).open(tmp_path / "memory").fingerprint() == first
    os.utime(path, (2, 2))
    with pytest.raises(TypeError):
        texts_of(path).open(tmp_path / "memory").fingerprint()


def test_what_is_remembered_of_one_folder_of_an_archive_is_not_that_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the same name in two folders; as often as they are asked for, in turn."""
    monkeypatch.setattr("tasks.sources.archives.SETTLED_NS", 0)
    with zipfile.ZipFile(path := tmp_path / "a.zip", "w") as archive:
        for folder in ("one", "two", "two/one"):
            archive.writestr(f"{folder}/x.md", folder)
    for folder in ("one", "two", "two/one", "one"):
        found = open_tree(path / folder, tmp_path / "memory").of(["x.md"])
        assert found == [hashlib.sha256(folder.encode()).hexdigest()]


@pytest.mark.parametrize(
    ("suffix", "says"), [("zip", "it changed while it was read"), ("tar", "other content than was")]
)
def test_an_archive_that_changes_after_it_was_listed_ends_the_run(tmp_path: Path, suffix: str, says: str) -> None:
    folder, path = texts(tmp_path / "book"), tmp_path / f"book.{suffix}"
    zipped(folder, path, zipfile.ZIP_STORED) if suffix == "zip" else tarred(folder, path)
    opened = texts_of(path).open()
    opened.fingerprint()
    path.write_bytes(path.read_bytes().replace(b"Chapter 0", b"chapter 0"))
    with pytest.raises(Failed, match=says):
        everything(opened)
    with pytest.raises(Failed, match="it changed while it was read"):
        opened.fingerprint()


def test_a_damaged_file_of_a_zip_is_named(tmp_path: Path) -> None:
    path = zipped(texts(tmp_path / "book"), tmp_path / "book.zip", zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"Chapter 0", b"Chapter!0"))
    with pytest.raises(Failed, match=r"book.zip/part0/0.md: CRC-32 \w+, and the archive says"):
        texts_of(path).open().fingerprint()


def hostile(path: Path, *names: str, **settings: Any) -> Path:
    with zipfile.ZipFile(path, "w", **settings) as archive:
        for name in names:
            archive.writestr(name, b"text")
    return path


@pytest.mark.parametrize(
    "name", ["../out.md", "a/../../out.md", "/etc/out.md", "a\\out.md", "C:/out.md", "a//b.md", "a\n.md"]
)
@pytest.mark.parametrize("suffix", ["zip", "tar"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "zip":
        hostile(path, "a/good.md", name)
    else:
        with tarfile.open(path, "w") as archive:
            archive.addfile(tarfile.TarInfo("a/good.md"))
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(Refused, match="a name in an archive is a path below it"):
        texts_of(path).open()


def test_links_are_refused_where_they_would_be_read(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("a/link.md")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a/good.md", b"text")
        archive.writestr(info, "/etc/passwd")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("a/good.md"))
        for kind, name in ((tarfile.SYMTYPE, "a/link.md"), (tarfile.LNKTYPE, "a/hard.md")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
    for suffix, link in (("zip", "link.md: a symbolic link"), ("tar", "hard.md: a link")):
        with pytest.raises(Refused, match=f"a/{link}; every file that matches must be readable"):
            texts_of(tmp_path / f"x.{suffix}").open()
        kept = texts_of(tmp_path / f"x.{suffix}", exclude=["link.md", "hard.md"]).open()
        assert [key for key, _ in kept.fingerprint()] == ["a/good.md"]


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "BOMB_RATIO", 100)
    with zipfile.ZipFile(tmp_path / "one.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/zeros.md", bytes(8 << 20))
    with pytest.raises(Refused, match=r"a/zeros.md: 8 MiB in 8,\d+ bytes; an archive holds at most 100 times its size"):
        texts_of(tmp_path / "one.zip").open()
    with zipfile.ZipFile(tmp_path / "many.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            archive.writestr(f"a/{number}.md", bytes(1 << 20))
    with pytest.raises(Refused, match="all files: 9 MiB in"):
        texts_of(tmp_path / "many.zip").open()


def directory_of(content: bytes) -> int:
    return struct.unpack("<L", content[content.rindex(b"PK\5\6") + 16 :][:4])[0]


def test_a_size_that_lies_and_files_that_overlap_are_found(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.md", b"text " * 1000)
        archive.writestr("a/2.md", b"more " * 1000)
    whole = path.read_bytes()
    entry = directory_of(whole)
    path.write_bytes(whole[: entry + 24] + struct.pack("<L", 17) + whole[entry + 28 :])
    with pytest.raises(Failed, match=r"a/1.md: more than 17 bytes, as the archive says"):
        texts_of(path).open().fingerprint()
    second = whole.index(b"PK\1\2", entry + 4)
    path.write_bytes(whole[: second + 42] + struct.pack("<L", 0) + whole[second + 46 :])
    with pytest.raises(Refused, match="files that overlap"):
        texts_of(path).open()
    for cut, says in ((len(whole) // 3, "not a zip file"), (len(whole) - 30, "not a zip file")):
        path.write_bytes(whole[:cut])
        with pytest.raises(Refused, match=says):
            texts_of(path).open()
    path.write_bytes(hostile(tmp_path / "twice.zip", "a/1.md").read_bytes())
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("a/1.md", b"other")
    with pytest.raises(Refused, match="'a/1.md': twice"):
        texts_of(path).open()


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = hostile(tmp_path / "x.zip", "a/1.md")
    content = bytearray(path.read_bytes())
    content[directory_of(bytes(content)) + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(Refused, match=r"a/1.md: encrypted; every file that matches"):
        texts_of(path).open()
    hostile(tmp_path / "y.zip", "a/1.md", compression=zipfile.ZIP_LZMA)
    with pytest.raises(Refused, match="compressed by method 14, and only stored and deflated"):
        texts_of(tmp_path / "y.zip").open()
    with pytest.raises(Refused, match=r"no file of .*y.zip/nowhere matches"):
        texts_of(tmp_path / "y.zip/nowhere").open()
    (tmp_path / "z.tar.gz").write_bytes(b"x")
    with pytest.raises(Refused, match=r"compressed as a whole; .*gunzip z.tar.gz"):
        texts_of(tmp_path / "z.tar.gz").open()


def test_a_tar_that_is_cut_ends_the_run(tmp_path: Path) -> None:
    path = tarred(texts(tmp_path / "book"), tmp_path / "book.tar")
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(Failed, match="a tar file must be whole"):
        texts_of(path).open()


@pytest.mark.parametrize("beyond", [-1, 0, 1, 100, 258])
def test_the_last_bytes_of_a_chunk_are_not_lost(tmp_path: Path, beyond: int) -> None:
    content = b"ab" * (archives.CHUNK // 2) + b"c" * beyond if beyond > 0 else b"a" * (archives.CHUNK + beyond)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/long.md", content)
    tree = open_tree(tmp_path / "x.zip", None)
    assert tree.read("a/long.md", hashlib.sha256(content).hexdigest()) == content


def test_memory_stays_flat_where_a_long_file_is_read_by_lines(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/long.md", b"".join(b"line %d\n" % number for number in range(400_000)))
    tree = open_tree(tmp_path / "x.zip", None)
    [sha256] = tree.of(["a/long.md"])
    with tree.stream("a/long.md", sha256) as file:
        raw: Any = file
        assert isinstance(raw, io.BufferedReader)
        assert sum(1 for _ in file) == 400_000
    with pytest.raises(Failed, match="other content"), tree.stream("a/long.md", "0" * 64) as file:
        file.readline()
