"""Text files: which are read, that no byte is lost, and that files that are not UTF-8 are named."""

from __future__ import annotations

import hashlib
import os
import sysconfig
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.artifacts import Records
from tasks.config.base import identity
from tasks.config.compose import Config
from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.sources.files import pattern
from tasks.sources.kinds.folders import TextFilesSource
from tasks.view.words import describe
from tests.support.pages import page_of
from tests.support.raw_data import ODD

CONFIG = RecordsConfig(splits={"train": 0.4, "validation": 0.3, "test": 0.3}, shards=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "texts"
    for number in range(30):
        path = root / f"shelf{number % 3}" / f"{number:02d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Text number {number}.\n" * number)
    for name, content in ODD.items():
        (root / name).write_bytes(content)
    return root


def source(folder: Path, **more: object) -> TextFilesSource:
    return TextFilesSource.model_validate({"path": str(folder), **more})


def test_an_example_is_named_by_the_byte_at_which_it_begins(tmp_path: Path) -> None:
    """Of paragraphs of several lines that of the first; empty lines are in none."""
    content = b"\n  one\ntwo\n\n \nthree\nfour\nfive\n\nsix"
    (tmp_path / "a.txt").write_bytes(content)

    def begins(example: str) -> dict[int, bytes]:
        opened = source(tmp_path, example=example).open()
        opened.fingerprint()
        rows = [rows for piece in opened.pieces() for rows in opened.read(piece)]
        texts = [text for each in rows for text in each.columns["text"].to_pylist()]
        return dict(zip([int(key.split(":")[1]) for each in rows for key in each.keys.to_pylist()], texts, strict=True))

    assert begins("paragraph") == {1: b"one\ntwo", 14: b"three\nfour\nfive", 31: b"six"}
    lines = begins("line")
    assert list(lines.values()) == [b"one", b"two", b"three", b"four", b"five", b"six"]
    assert all(content[begin:].lstrip().startswith(text) for begin, text in lines.items())


def test_every_byte_of_every_file_is_in_exactly_one_record(folder: Path, bench: Workbench, publish: Callable) -> None:
    made = publish(Records, bench, conversion.build(bench, source(folder), CONFIG))
    reader = RecordsReader(made.path)
    collected = {}
    for split in reader.counts:
        examples = list(reader.iterate(split))
        collected |= {example["key"][0].decode(): example["text"][0] for example in examples}
    assert collected == {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.txt")}
    assert len(collected) == 34 == sum(reader.counts.values())


def test_a_file_that_is_not_utf8_ends_the_run_by_name_and_byte(folder: Path, bench: Workbench) -> None:
    (folder / "shelf1/latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(Failed) as failed:
        conversion.build(bench, source(folder), CONFIG)
    saw = "shelf1/latin.txt (byte 3 (0xe9) is not UTF-8)"
    assert str(failed.value).startswith(f"source.undecodable: {saw}; text must be UTF-8; convert them,")
    assert failed.value.exit_code == 1


def test_of_many_that_are_not_utf8_ten_are_named_and_the_others_counted(folder: Path, bench: Workbench) -> None:
    for number in range(14):
        (folder / f"shelf0/latin{number:02d}.txt").write_bytes(f"café {number}".encode("latin-1"))
    with pytest.raises(Failed) as failed:
        conversion.build(bench, source(folder), CONFIG)
    names = "; ".join(f"shelf0/latin{number:02d}.txt (byte 3 (0xe9) is not UTF-8)" for number in range(10))
    assert failed.value.saw == f"{names} and 4 more"


def test_or_is_skipped_counted_and_named(folder: Path, bench: Workbench) -> None:
    (folder / "shelf1/latin.txt").write_bytes("café".encode("latin-1"))
    (folder / "shelf2/utf16.txt").write_bytes("text".encode("utf-16"))
    config = source(folder, undecodable="skip")
    outcome = conversion.build(bench, config, CONFIG)
    assert (outcome.counts["examples"], outcome.counts["quarantined"], outcome.counts["skipped"]) == (34, 0, 2)
    assert len(config.open().fingerprint()) == 36
    assert outcome.statistics["skipped"] == [
        ["shelf1/latin.txt", "byte 3 (0xe9) is not UTF-8", "shelf1/latin.txt"],
        ["shelf2/utf16.txt", "byte 0 (0xff) is not UTF-8", "shelf2/utf16.txt"],
    ]
    assert conversion.build(bench, config, CONFIG) == outcome, "adopted shards know what they left out"


def test_what_is_skipped_is_reported_in_a_line_and_named_on_the_page(
    folder: Path, bench: Workbench, publish: Callable, tmp_path: Path
) -> None:
    (folder / "shelf1/latin.txt").write_bytes("café".encode("latin-1"))
    config = source(folder, undecodable="skip")
    made = publish(Records, bench, conversion.build(bench, config, CONFIG))
    assert describe(made) == "34 records in 6 shards, 1 skipped, 1 copy kept in one split"
    rest = {"snapshot": {"kind": "tokens"}, "train": {"steps": 1}}
    whole = Config.model_validate({"name": "texts", "source": config, "records": CONFIG, **rest})
    page = page_of(tmp_path / "home", whole, convert=made)
    assert "34 files:" in page
    assert "1 are copies of others (<code>records.duplicates: group</code>)" in page
    assert "1 excluded: skipped (source.undecodable: skip)" in page
    assert "<code>shelf1/latin.txt</code></dt><dd>byte 3 (0xe9) is not UTF-8" in page


def test_glob_and_exclude_choose_files(folder: Path) -> None:
    for name in ("tests/in.txt", "a/tests/in.txt", "a/.hidden/in.txt", "a/.in.txt", "a/b/deep.txt", "a/tests.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "outside.txt").symlink_to(folder / "a/b/deep.txt")
    (folder / "link").symlink_to(folder / "a")
    os.mkfifo(folder / "pipe.txt")
    keys = {key for key, _ in source(folder).open().fingerprint() if not key.startswith("shelf") and key not in ODD}
    assert keys == {"a/b/deep.txt", "a/tests.txt", "outside.txt"}
    assert {key for key, _ in source(folder, glob="a/*.txt", exclude=[]).open().fingerprint()} == {"a/tests.txt"}


@pytest.mark.parametrize(
    ("glob", "takes", "leaves"),
    [
        ("**/*.py", ["a.py", "a/b/c.py"], ["a.pyc", ".a.py", ".a/b.py", "a/.b.py"]),
        ("*.py", ["a.py"], ["a/b.py"]),
        ("a/**/b?.txt", ["a/b1.txt", "a/x/y/b2.txt"], ["b1.txt", "a/b.txt", "a/b/1.txt"]),
        ("[!a]*/[0-9].txt", ["bc/1.txt"], ["ac/1.txt", "bc/x.txt"]),
        ("(x).+", ["(x).+"], ["x..", "(x)...."]),
    ],
)
def test_a_glob_means_what_it_means_in_a_shell(glob: str, takes: list[str], leaves: list[str]) -> None:
    matches = pattern(glob)
    assert all(matches(path) for path in takes)
    assert not any(matches(path) for path in leaves)


def test_the_digest_sees_keys_and_contents_and_not_the_folder(folder: Path, tmp_path: Path) -> None:
    before = source(folder).open().fingerprint()
    moved = folder.rename(tmp_path / "elsewhere")
    assert source(moved).open().fingerprint() == before
    assert identity(source(moved)) == identity(source(folder))
    assert dict(before)["bom.txt"] == hashlib.sha256(ODD["bom.txt"]).hexdigest()


def test_an_unchanged_file_is_hashed_once(folder: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    time.sleep(0.15)  # files as young as these are not trusted to have settled
    before = source(folder).open(memory).fingerprint()
    [kept] = memory.glob("sources/*.json")
    kept.write_text(kept.read_text().replace(dict(before)["bom.txt"], "f" * 64))
    assert dict(source(folder).open(memory).fingerprint())["bom.txt"] == "f" * 64, "the memory was not used"
    (folder / "bom.txt").write_bytes(ODD["bom.txt"])
    assert source(folder).open(memory).fingerprint() == before
    kept.write_text("not json")
    assert source(folder).open(memory).fingerprint() == before


def test_a_file_that_changes_while_it_is_read_ends_the_run(folder: Path, bench: Workbench) -> None:
    def meddle(*_: object, **__: object) -> None:
        (folder / "shelf0/00.txt").write_text("other")

    with pytest.raises(Failed, match=r"shelf0/00\.txt"):
        conversion.build(replace(bench, progress=meddle), source(folder), CONFIG)


def test_what_a_listing_shows_is_refused(folder: Path) -> None:
    for config, says in [
        (source(folder / "nowhere"), "no such file or folder"),
        (source(folder / "bom.txt"), "not a folder"),
        (source(folder, glob="**/*.md"), r"no file of .* matches; source.glob is \*\*/\*.md"),
        (source(folder, exclude=["texts", "shelf0", "shelf1", "shelf2", *ODD]), "no file of"),
        (source(Path("stdlib:json")), "after stdlib: comes nothing"),
    ]:
        with pytest.raises(Refused, match=says):
            config.check()
    (folder / "broken.txt").symlink_to(folder / "nowhere")
    with pytest.raises(Refused, match=r"broken.txt: No such file"):
        source(folder).check()


def test_stdlib_is_this_pythons_own_library(tmp_path: Path) -> None:
    listed = dict(TextFilesSource(path="stdlib:", glob="**/*.py").open(tmp_path).fingerprint())
    decoder = Path(sysconfig.get_path("stdlib"), "json/decoder.py").read_bytes()
    assert listed["json/decoder.py"] == hashlib.sha256(decoder).hexdigest()
    assert len(listed) > 500
    assert not any({"site-packages", "test", "tests"} & set(key.split("/")) for key in listed)
