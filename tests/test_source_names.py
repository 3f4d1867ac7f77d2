"""Files are known by their names: each ending that is read, or refused, in small letters and in capitals."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import Refused
from tasks.guess import guess_source
from tasks.guess.folders import is_text, kinds_of
from tasks.guess.samples import kind_of_file
from tasks.sources.archives import archive_above
from tasks.sources.folders import is_image, is_sound
from tasks.sources.streams import compression_of
from tasks.sources.webdataset import is_webdataset

ROWS = {
    "csv": [f"a{end}{packed}" for end in (".csv", ".tsv") for packed in ("", ".gz", ".zst", ".bz2")],
    "jsonl": [f"a{end}{packed}" for end in (".jsonl", ".ndjson") for packed in ("", ".gz", ".zst", ".bz2")],
    "parquet": ["a.parquet"],
    "tfrecord": [f"a.tfrecord{end}" for end in ("", "s", "-00000-of-00002", ".gz", ".zst", ".bz2")],
    "webdataset": [f"a{end}" for end in (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2")],
}


@pytest.mark.parametrize(("kind", "names"), ROWS.items())
def test_files_of_rows_have_the_endings_of_their_source(kind: str, names: list[str]) -> None:
    assert {name: kind_of_file(name) for each in names for name in (each, each.upper())} == dict.fromkeys(
        [name for each in names for name in (each, each.upper())], kind
    )


def test_other_files_are_no_rows() -> None:
    names = ("a.parquet.gz", "a.csv.xz", "a.json", "csv", "a.tar.xz", "a.tfrecord-00000", "a.txt", "a.zip")
    assert [name for name in names if kind_of_file(name)] == []
    assert [name for name in ("a.tar.xz", "a.txz", "a.tbz2", "tar") if is_webdataset(name)] == []


def test_images_and_sounds_have_these_endings() -> None:
    images = ("a.jpg", "a.jpeg", "a.jfif", "a.png", "a.gif", "a.webp", "a.bmp", "a.tif", "a.tiff")
    sounds = ("a.wav", "a.flac", "a.ogg", "a.mp3")
    for names, known, other in ((images, is_image, is_sound), (sounds, is_sound, is_image)):
        assert all(known(name) and known(name.upper()) and not other(name) for name in names)
    assert not any(is_image(name) or is_sound(name) for name in ("a.svg", "a.m4a", "a.heic", "jpg"))


def test_a_compression_is_what_the_name_says() -> None:
    known = {name: compression_of(name) for name in ("a.gz", "a.csv.GZ", "a.zst", "a.bz2", "a.xz", "a.csv", "gz")}
    assert known == {"a.gz": "gzip", "a.csv.GZ": "gzip", "a.zst": "zstd", "a.bz2": "bz2"} | dict.fromkeys(
        ("a.xz", "a.csv", "gz")
    )


@pytest.mark.parametrize(
    "ending", [".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".7z", ".rar"]
)
def test_what_is_compressed_as_a_whole_is_no_archive_to_read_in_place(ending: str, tmp_path: Path) -> None:
    for name in (f"a{ending}", f"b{ending.upper()}"):
        (tmp_path / name).touch()
        for place in (tmp_path / name, tmp_path / name / "folder/below"):
            with pytest.raises(Refused, match="compressed as a whole; .* a .zip or a plain .tar file"):
                archive_above(place)


def test_an_archive_is_found_above_what_is_in_it(tmp_path: Path) -> None:
    for name in ("a.zip", "b.tar", "C.ZIP", "D.Tar"):
        (tmp_path / name).touch()
        assert archive_above(tmp_path / name) == archive_above(tmp_path / name / "x/y") == tmp_path / name
    (tmp_path / "a.md").touch()
    (tmp_path / "folder.zip").mkdir()
    assert archive_above(tmp_path / "a.md") is archive_above(tmp_path / "folder.zip/x") is None


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".txz", ".zst", ".7z", ".rar"])
def test_a_packed_file_is_to_be_unpacked_before_init_looks_at_it(ending: str, tmp_path: Path) -> None:
    for name in (f"a{ending}", f"b{ending.upper()}"):
        (tmp_path / name).write_bytes(b"text")
        with pytest.raises(Refused, match="packed; init looks at files as they are"):
            guess_source(tmp_path / name)


@pytest.mark.parametrize("ending", [".db", ".sqlite", ".sqlite3", ".DB"])
def test_a_file_of_sqlite_is_a_database(ending: str, tmp_path: Path) -> None:
    with sqlite3.connect(path := tmp_path / f"a{ending}") as connection:
        connection.execute("create table one (a int)")
        connection.execute("create table two (a int)")
    connection.close()
    with pytest.raises(Refused, match="tables one, two"):
        guess_source(path)


def test_files_that_are_written_for_programs_are_no_texts() -> None:
    endings = ["csv", "tsv", "json", "jsonl", "xml", "yaml", "yml", "toml", "ini", "svg", "log", "lock"]
    tree: Any = SimpleNamespace(head=lambda name, size: b"text")
    assert kinds_of([f"a.{ending}" for ending in endings], tree, rows=False) == {}
    assert kinds_of(["b.md", "c.txt", "a.md", "a.json"], tree) == {".md": ["b.md", "a.md"], ".txt": ["c.txt"]}


@pytest.mark.parametrize("character", ["a", "ü", "本", "𝄞"])
def test_a_sample_of_a_text_may_end_within_a_character(character: str) -> None:
    """It may not break off before its end, or have a byte that no character begins with."""
    whole = ("text " + character).encode()
    assert all(is_text(whole[:end]) for end in range(5, len(whole) + 1))
    assert not is_text(b"\xff text") and not is_text(whole + b"\xff text") and not is_text(whole + b"\0")
