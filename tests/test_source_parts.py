"""Parts of sources by themselves: streams, partitions, numbered rows, nested values, files beside rows, user code."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.environment.user_code import closure, importable
from tasks.errors import Failed, Refused
from tasks.sources import Bad, Rows, folders, name_some, payloads, streams, table_files
from tasks.sources.archives import open_tree
from tasks.sources.csv import Csv
from tasks.sources.delimited import Dialect, blocks, first_record
from tasks.sources.encoding import bytes_entry, examples, framed, integer_entry
from tasks.sources.files import SETTLED_NS, Folder, groups
from tasks.sources.kinds.catalogues import TfdsSource
from tasks.sources.kinds.columns import features_of
from tasks.sources.kinds.folders import AudioFolderSource, ImageFolderSource, TextFilesSource
from tasks.sources.kinds.tables import JsonlSource
from tasks.sources.payloads import Payloads, selected
from tasks.sources.streams import (
    BOM,
    LONGEST,
    Pushed,
    TarEntry,
    Transcoded,
    check_ratio,
    is_single_byte,
    members,
    open_stream,
    whole,
    without_bom,
)
from tasks.sources.table_files import Numbered, Part, packed
from tasks.sources.tfds import kind_of
from tasks.sources.values import column, column_of, columns_of, leaves, names_in, text_of, value


def test_a_bomb_holds_more_than_a_thousand_times_its_size_and_64_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    check_ratio("x", 1, 64 << 20)
    check_ratio("x", 1 << 20, 1000 << 20)
    for compressed, size in ((1, (64 << 20) + 1), (1 << 20, (1000 << 20) + 1)):
        with pytest.raises(Failed, match="a compressed file holds at most 1,000 times its size, or 64 MiB"):
            check_ratio("x", compressed, size)


@pytest.mark.parametrize("name", ["rows.gz", "rows.bz2"])
def test_a_bomb_is_found_by_all_that_was_read_of_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(streams, "BOMB_RATIO", 10)
    (tmp_path / name).write_bytes({"rows.gz": gzip, "rows.bz2": bz2}[name].compress(bytes(4 << 20)))
    read = 0
    with open_stream(tmp_path, name) as stream, pytest.raises(Failed, match="over 1 MiB in"):
        while chunk := stream.read(1 << 16):
            read += len(chunk)
    assert read == 1 << 20


def test_bytes_that_were_put_back_are_read_first_and_across_their_end() -> None:
    stream = Pushed(b"abcd", io.BytesIO(b"efgh"))
    assert [stream.read(3), stream.read(3), stream.read(9), stream.read(1)] == [b"abc", b"def", b"gh", b""]


@pytest.mark.parametrize("chunk", [1, 2, 5, 99])
def test_text_of_another_encoding_is_utf8_whatever_is_read_at_once(chunk: int) -> None:
    text = "naïve €5 你好\r\n𝄞"
    stream = Transcoded(io.BytesIO(text.encode("utf-16-le")), "utf-16-le")
    read = b""
    while part := stream.read(chunk):
        assert len(part) <= chunk
        read += part
    assert read.decode() == text
    with pytest.raises(Failed, match="every byte must be decodable"):
        Transcoded(io.BytesIO("ab".encode("utf-16-le")[:3]), "utf-16-le").read(9)
    assert Transcoded(io.BytesIO(b"a\xff"), "utf-8").read(9) == "a\udcff".encode("utf-8", "surrogatepass")


def test_all_of_a_stream_is_taken_piece_by_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHUNK", 4)
    assert whole(io.BytesIO(b"0123456789"), 9) == b"012345678" and whole(io.BytesIO(b"01"), 2) == b"01"
    assert whole(io.BytesIO(b"0123456789"), 1 << 40) == b"0123456789", "whatever a header says"


def test_a_byte_order_mark_is_passed_over_and_another_encoding_refused() -> None:
    for content, rest, begin in ((BOM + b"a,b", b"a,b", 3), (b"a,b", b"a,b", 0), (b"a", b"a", 0), (b"", b"", 0)):
        stream, at = without_bom(io.BytesIO(content), "x.csv", "source.encoding")
        assert (stream.read(99), at) == (rest, begin)
    for wide in ("utf-16", "utf-32"):
        with pytest.raises(Failed, match="UTF-16 or UTF-32"):
            without_bom(io.BytesIO("a,b".encode(wide)), "x.csv", "source.encoding")
    assert [is_single_byte(name) for name in ("latin-1", "cp1252", "utf-16", "shift_jis", "cp500", "none")] == [
        *(True, True, False, False, False, False)
    ]


def test_pieces_have_at_most_so_many_bytes_and_files_or_one_large_file() -> None:
    def ranges(sizes: list[int], most_bytes: int = 10, most_files: int = 3) -> list[Any]:
        paths = [f"f{number}" for number in range(len(sizes))]
        partitions = groups(paths, sizes, most_bytes, most_files)
        assert [partition.name for partition in partitions] == [paths[partition.where[0]] for partition in partitions]
        assert sum(partition.bytes for partition in partitions) == sum(sizes)
        return [partition.where for partition in partitions]

    assert ranges([5, 5, 1]) == [(0, 2), (2, 3)] and ranges([5, 6]) == [(0, 1), (1, 2)]
    assert ranges([1, 1, 1, 1]) == [(0, 3), (3, 4)] and ranges([99, 1]) == [(0, 1), (1, 2)]
    assert ranges([1] * 7) == [(0, 3), (3, 6), (6, 7)] and ranges([6, 3, 3, 6]) == [(0, 2), (2, 4)]
    assert ranges([0, 0]) == [(0, 2)] and ranges([10]) == [(0, 1)] and ranges([]) == []


def test_a_list_with_half_a_pair_is_bad_and_those_beside_it_are_whole() -> None:
    for kind in ("words", "tags"):
        values, bad = column_of([["one"], ["\ud83d"], ["two", "2"], [["x"]], None], kind)
        assert values.to_pylist() == [["one"], None, ["two", "2"], None, None]
        assert bad == {1: "half of a surrogate pair", 3: f"not a list of {kind}"}


def test_features_have_the_shape_of_their_type() -> None:
    types = {"photo": "image", "heard": "audio", "said": "words", "box": "number[2, 3]", "size": "number", "at": "time"}
    config = JsonlSource(path="x.jsonl", columns={**types, "kinds": "tags"}, label="kinds", classes=("a", "b"))
    shapes = {name: (each.kind, each.shape) for name, each in features_of(config).items()}
    assert shapes == {
        "photo": ("image", (-1, -1, -1)),
        "heard": ("audio", ()),
        "said": ("words", (-1,)),
        "box": ("number", (2, 3)),
        "size": ("number", ()),
        "at": ("time", ()),
        "kinds": ("tags", (-1,)),
    }


def test_files_of_each_piece_are_those_that_were_listed_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sounds of unequal classes and splits, two or one of them in a partition."""
    monkeypatch.setattr(folders.ClassFolders, "partition_files", 2)
    names = [*(f"train/low/{number}.wav" for number in range(3)), "test/high/0.wav", "test/low/9.wav"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    opened = AudioFolderSource(path=str(tmp_path), split_folders=True).open()
    opened.fingerprint()
    read = [rows for partition in opened.partitions() for rows in opened.read(partition)]
    assert [len(rows.keys) for rows in read] == [2, 2, 1]
    for name, row in zip(sorted(names), [(rows, at) for rows in read for at in range(len(rows.keys))], strict=True):
        rows, at = row
        assert rows.splits is not None
        found = (rows.keys[at], rows.splits[at], rows.columns["label"][at], rows.columns["audio"][at])
        split, label, _ = name.split("/")
        assert [each.as_py() for each in found] == [name, split, label, name.encode()] and rows.place(at) == name


def test_the_first_rows_that_are_bad_are_named_and_the_others_counted() -> None:
    bad = [Bad(f"x:{number:02d}", "cut", f"x line {number}") for number in (7, 3, 11, 5, 1, 9, 2, 8, 4, 10, 6, 12)]
    assert name_some(bad, 12) == "; ".join(f"x line {number} (cut)" for number in range(1, 11)) + " and 2 more"
    two = [Bad("b.png", "empty", ""), Bad("a.png", "cut", "a.png")]
    assert name_some(two, 2) == "a.png (cut); b.png (empty)"
    assert name_some(two, 1002) == "a.png (cut); b.png (empty) and 1,000 more", "of which not all are kept"
    assert name_some(bad, 2000).endswith(" and 1,990 more")


def test_the_hash_of_a_settled_file_alone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, memory = tmp_path / "data", tmp_path / "memory"
    root.mkdir()
    (root / "a").write_bytes(b"a")
    now = time.time_ns()
    young = Folder(root, memory)
    monkeypatch.setattr(time, "time_ns", lambda: now)
    assert young.of(["a"]) == [hashlib.sha256(b"a").hexdigest()] and young._cache.load() == {}
    monkeypatch.setattr(time, "time_ns", lambda: now + 2 * SETTLED_NS)
    young.of(["a"])
    assert list(young._cache.load()) == ["a"]
    (root / "b").write_bytes(b"b")
    monkeypatch.setattr(time, "time_ns", lambda: now + 10**12)
    young.of(["b"])
    assert sorted(young._cache.load()) == ["a", "b"], "what is known of others stays"
    (root / "c").write_bytes(b"c")
    os.utime(root / "c", (1, 1))
    monkeypatch.setattr(time, "time_ns", lambda: (root / "c").stat().st_ctime_ns + SETTLED_NS // 2)
    young.of(["c"])
    assert "c" not in young._cache.load(), "copied with its old time a moment ago"
    other = tmp_path / "other"
    other.mkdir()
    assert Folder(other, memory)._cache.load() == {}, "a folder has its own"


def test_a_file_is_read_as_it_was_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    hashes = Folder(tmp_path, None)
    [listed] = hashes.of(["a"])
    assert hashes.read("a", listed) == b"a" and hashes.head("a", 9) == b"a"
    (tmp_path / "a").write_bytes(b"b")
    with pytest.raises(Failed, match="other content than was listed"):
        hashes.read("a", listed)
    with pytest.raises(Failed, match="other content than was listed"), hashes.stream("a", listed) as file:
        file.read()
    with pytest.raises(Failed, match="every listed file must be readable"):
        hashes.of(["missing"])


def test_blocks_have_whole_records_with_their_rows_and_lines() -> None:
    data = b'a,1\r\n\r\n"b\nc",2\nd,3\n\ne,"4'
    for size in (1, 3, 7, 999):
        found = list(blocks(io.BytesIO(data), Dialect(b",", b'"'), size, "x.csv", row=10, line=5))
        rows = [
            (block.row + number, int(line), block.data[start:end])
            for block in found
            if len(block)
            for number, (start, line, end) in enumerate(
                zip(block.starts, block.lines, [*block.starts[1:], len(block.data)], strict=True)
            )
        ]
        assert [(row, line) for row, line, _ in rows] == [(10, 5), (11, 7), (12, 9), (13, 11)]
        assert [text.strip() for *_, text in rows] == [b"a,1", b'"b\nc",2', b"d,3", b'e,"4']
        assert [block.unclosed for block in found][-1] and not any(block.unclosed for block in found[:-1])
    assert found[0].without([0, 2]).split() == [b'"b', b'c",2'], "the last record is a block of its own"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_line_ends_by_a_line_feed_a_return_or_both(end: bytes, whole: bool) -> None:
    data = end.join([b"a,1", b"", b"b,2", b"c,3"]) + (end if whole else b"")
    found = []
    for block in blocks(io.BytesIO(data), Dialect(b",", b'"'), 999, "x.csv"):
        for number, line in enumerate(block.lines[: len(block)]):
            others = [row for row in range(len(block)) if row != number]
            found.append((int(line), block.without(others).strip()))
    assert found == [(1, b"a,1"), (3, b"b,2"), (4, b"c,3")]


def test_the_first_record_is_after_the_empty_lines() -> None:
    head, lines, rest = first_record(io.BytesIO(b'\n\r\n"a\nb",c\n1,2\n'), Dialect(b",", b'"'), "x.csv")
    assert (head, lines, rest.read(99)) == (b'\n\r\n"a\nb",c\n', 4, b"1,2\n")
    head, lines, rest = first_record(io.BytesIO(b"\n\n"), Dialect(b",", b'"'), "x.csv")
    assert lines == 0 and rest.read(9) == b""


def test_numbered_rows_leave_out_the_bad_ones_and_keep_their_numbers() -> None:
    numbered = Numbered("x.csv", 100, 5, lines=[10, 11, 13, 14, 20])
    columns = {"a": pa.array(["r0", "r2", "r3", "r4"])}  # record 1 is not in the table
    rows = numbered.rows(columns, {1: "ragged", 3: "not UTF-8"}, absent=[1])
    assert rows.columns["a"].to_pylist() == ["r0", "r2", "r4"]
    assert rows.keys.to_pylist() == ["x.csv:000000100", "x.csv:000000102", "x.csv:000000104"]
    assert [rows.place(row) for row in range(3)] == ["x.csv line 10", "x.csv line 13", "x.csv line 20"]
    assert rows.bad == [
        Bad("x.csv:000000101", "ragged", "x.csv line 11"),
        Bad("x.csv:000000103", "not UTF-8", "x.csv line 14"),
    ]
    assert Numbered("f", 4, 2).place(1) == "f row 6", "from 1"
    part = selected(rows, 1, 3)
    assert part.keys.to_pylist() == ["x.csv:000000102", "x.csv:000000104"] and part.place(0) == "x.csv line 13"
    assert part.columns["a"].to_pylist() == ["r2", "r4"] and part.bad == []


def test_values_of_several_types_become_texts_each_by_itself() -> None:
    texts = [text_of(each) for each in (True, np.bool_(False), 1.0, 1.5, 1e-7, 3, b"\xff", None, [1], {"a": "é"})]
    assert texts == ["true", "false", "1", "1.5", "1e-7", "3", "\\xff", None, "[1]", '{"a": "é"}']
    assert column_of(["a", 1, None], "category")[0].to_pylist() == ["a", "1", None]
    assert column_of([1, 2], "category")[0].to_pylist() == [1, 2]
    arrays, bad = column_of([[[1, 2], [3, 4]], None, "x", [5]], "number[2, 2]")
    assert arrays.to_pylist() == [[1, 2, 3, 4], None, None, [5]] and bad == {2: "not an array of numbers"}
    words, bad = column_of([["a", 1, None], None, "text", [["a"]], np.array(["b"])], "words")
    assert words.to_pylist() == [["a", "1", None], None, None, None, ["b"]]
    assert bad == {2: "not a list of words", 3: "not a list of words"}
    mixed, bad = column_of([["a", ["b"]], [{"c": 1}, "d"], []], "words")
    assert mixed.to_pylist() == [None, None, []] and bad == {0: "not a list of words", 1: "not a list of words"}
    files, bad = column_of([b"x", "p.png", {"bytes": b"y", "path": "q"}, {"url": "z"}, 5, None], "image")
    assert [(each or {}).get("bytes") for each in files.to_pylist()] == [b"x", None, b"y", None, None, None]
    assert bad == {3: "neither bytes nor a path", 4: "neither bytes nor a path"}


def test_an_items_first_reason_is_that_of_the_item() -> None:
    def fitting(item: dict[str, Any]) -> dict[str, Any]:
        if "broken" in item:
            raise ValueError("broken")
        return item

    items = [{"a": [1.0]}, {"broken": 1}, {"a": "x"}, {}]
    columns, bad = columns_of(items, {"a": "number[1]"}, fitting)
    assert columns["a"].to_pylist() == [[1.0], None, None, None]
    assert bad == {1: "broken", 2: "a: not an array of numbers"}


def test_dotted_names_are_of_fields_within_or_of_that_very_name() -> None:
    row = {"user": {"age": 3, "home": {"city": "Rome"}}, "user.name": "Ann", "none": None}
    assert [value(row, name) for name in ("user.age", "user.home.city", "user.name", "user.x", "none", "x.y")] == [
        *(3, "Rome", "Ann", None, None, None)
    ]
    assert list(names_in(row, {"user.home"})) == ["user.age", "user.home", "user.name"]
    table = pa.table({"user": [{"age": 3, "name": "Ben"}, None], "user.name": ["Ann", None], "all": [None, None]})
    assert column(table, "user.age").to_pylist() == [3, None]
    assert column(table, "user.name").to_pylist() == ["Ann", None] and column(table, "x").null_count == 2
    assert list(leaves(table.schema, ["all"])) == ["user.age", "user.name", "user.name", "all"]
    assert list(leaves(table.schema, ["user"])) == ["user", "user.name", "all"]
    mixed = pa.table({"user": [None, {"name": "Ben"}], "user.name": ["Ann", None]})
    assert column(mixed, "user.name").to_pylist() == ["Ann", "Ben"], "of either form"


def test_files_beside_rows_are_read_in_parts_with_every_bad_and_skipped_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "PARTITION_BYTES", 5)
    contents = {f"{number}.png": bytes([number]) * 3 for number in range(4)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items() if name != "3.png"}
    cells = ["0.png", "./1.png", "missing.png", None, "2.png", "3.png"]
    keys = [f"k{number}" for number in range(len(cells))]
    given = Rows(
        {"x": pa.array(cells), "n": pa.array(range(6))},
        pa.array(keys),
        lambda row: f"row {row}",
        bad=[Bad("b", "broken", "b")],
        skipped=[Bad("s", "skipped", "s")],
    )
    files = Payloads(tmp_path, ["x"])
    assert files.referenced({"x": pa.array(cells)}) == {"0.png", "1.png", "2.png", "3.png"}
    parts = list(files.filled(given, hashes))
    assert [key for part in parts for key in part.keys.to_pylist()] == ["k0", "k1", "k3", "k4"] and len(parts) > 1
    assert [cell for part in parts for cell in part.columns["x"].to_pylist()] == [b"\0" * 3, b"\1" * 3, None, b"\2" * 3]
    assert [cell for part in parts for cell in part.columns["n"].to_pylist()] == [0, 1, 3, 4]
    bad = [(row.key, row.reason) for part in parts for row in part.bad]
    assert bad == [
        ("b", "broken"),
        ("k2", "x: 'missing.png': no such file"),
        ("k5", "x: '3.png': no such file when the source was listed"),
    ]
    assert [row.key for part in parts for row in part.skipped] == ["s"]
    places = [part.place(row) for part in parts for row in range(len(part.keys))]
    assert places == ["row 0", "row 1", "row 3", "row 4"]
    (tmp_path / "0.png").write_bytes(b"new")
    with pytest.raises(Failed, match="other content than was listed"):
        list(files.filled(given, hashes))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "C:/x", "\\\\host\\x", "a\nb"])
def test_a_path_that_leads_out_is_no_file_of_the_source(path: str, tmp_path: Path) -> None:
    assert Payloads(tmp_path / "data", ["x"])._misplaced(path) is not None


def test_the_files_of_a_function_are_all_that_its_folder_has_of_what_is_imported(tmp_path: Path) -> None:
    sources = {
        "main.py": "from . import beside\nimport pkg.inner, json\nfrom pkg.sub.leaf import f\nif f:\n    import late\n",
        "beside.py": "",
        "late.py": "",
        "unused.py": "import broken(",
        "pkg/__init__.py": "from .above import x\n",
        "pkg/inner.py": "from . import sibling\nfrom .. import beside\n",
        "pkg/sibling.py": "",
        "pkg/above.py": "",
        "pkg/sub/__init__.py": "",
        "pkg/sub/leaf.py": "from ..deep import y\n",
        "pkg/deep.py": "import main\n",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    found = closure(tmp_path, ["main"])
    assert sorted(found) == sorted(set(sources) - {"unused.py"})
    assert all(found[name] == sources[name].encode() for name in found)


def test_modules_of_the_user_are_forgotten_after_use(tmp_path: Path) -> None:
    import sys

    (tmp_path / "of_the_user.py").write_text("value = 1\n")
    for expected in (1, 22):
        with importable(tmp_path, ["of_the_user.py"]):
            import of_the_user  # type: ignore[import-not-found]

            assert of_the_user.value == expected
        assert "of_the_user" not in sys.modules and str(tmp_path) not in sys.path
        (tmp_path / "of_the_user.py").write_text("value = 22\n")


@pytest.mark.parametrize(
    ("error", "saw"),
    [(PermissionError(13, "Permission denied"), "Permission denied"), (OSError(), "OSError"), (EOFError(), None)],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(error: Exception, saw: str | None) -> None:
    with pytest.raises(Failed if saw else EOFError) as failed, streams.reading("a/b.csv"):
        raise error
    if saw:
        assert (failed.value.field, failed.value.saw) == ("a/b.csv", saw)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        *(
            (name, True)
            for name in ("a.csv", "a.CSV", "a.csv.gz", "b/a.csv.zst", "a.csv.bz2", "a.txt", "csv", "a.csv.csv")
        ),
        *((name, False) for name in ("a.csv.bak", "a.csv.xz", "a.csv~", "a.csv.gz.old")),
    ],
)
def test_a_file_whose_name_says_more_than_its_kind_and_compression_is_no_table(name: str, read: bool) -> None:
    source: Any = object.__new__(Csv)
    source.config = SimpleNamespace(kind="csv")
    assert source._is_table(name) is read


def test_classes_of_texts_are_their_folders_by_name(tmp_path: Path) -> None:
    folders = [f"{letter}{number}" for letter in "cab" for number in range(5)]
    for name in folders:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text(name)
    source = TextFilesSource(path=str(tmp_path), glob="**/*.txt", class_folders=True).open()
    assert source.features["label"].classes == tuple(sorted(folders))


@pytest.mark.parametrize(
    ("error", "saw"),
    [(OSError(5, "Input/output error"), "Input/output error"), (OSError("odd"), "odd"), (OSError(), "OSError")],
)
def test_an_error_of_a_stream_is_said_in_its_words_or_by_its_name(error: OSError, saw: str) -> None:
    with pytest.raises(Failed) as failed, streams.reading("a.csv"):
        raise error
    assert failed.value.saw == saw


SOURCES: dict[str, Any] = {
    "a.jsonl": JsonlSource(path=".", glob="**/*.jsonl", columns={"x": "number"}),
    "low/a.txt": TextFilesSource(path=".", glob="**/*.txt", class_folders=True),
    "low/a.png": ImageFolderSource(path="."),
    "low/a.wav": AudioFolderSource(path="."),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_that_came_since_is_listed_by_the_next_look(name: str, tmp_path: Path) -> None:
    """So that a source that grows while it is read is found out."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b'{"x": 1}\n')
    opened = SOURCES[name].model_copy(update={"path": str(tmp_path)}).open()
    first = opened.fingerprint()
    came = name.replace("a.", "b.")
    (tmp_path / came).write_bytes(b'{"x": 2}\n')
    assert [path for path, _ in first] == [name]
    assert opened.fingerprint() == [*first, (came, hashlib.sha256(b'{"x": 2}\n').hexdigest())]


def test_files_beside_rows_are_listed_with_them_by_name_and_make_smaller_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "PARTITION_BYTES", 100 * table_files.REFERRING)
    (tmp_path / "a.png").write_bytes(b"an image")
    (tmp_path / "b.jsonl").write_text('{"x": "a.png"}\n' * 60)
    partitions = {}
    for kind in ("image", "text"):
        opened = JsonlSource(path=str(tmp_path), glob="*.jsonl", columns={"x": kind}).open()
        listed = [path for path, _ in opened.fingerprint()]
        assert listed == (["a.png", "b.jsonl"] if kind == "image" else ["b.jsonl"])
        partitions[kind] = [partition.bytes for partition in opened.partitions()]
    assert sum(partitions["image"]) == sum(partitions["text"]) == 900
    assert len(partitions["text"]) == 1 and max(partitions["image"]) <= 200


def test_a_piece_has_parts_of_about_so_many_bytes() -> None:
    parts = [Part(f"{number}", 40, (number,)) for number in range(5)]
    partitions = list(packed(parts, 100))
    assert [(partition.name, partition.bytes, len(partition.where)) for partition in partitions] == [
        ("0", 80, 2),
        ("2", 80, 2),
        ("4", 40, 1),
    ]
    assert [path for partition in partitions for path, _ in partition.where] == ["0", "1", "2", "3", "4"]
    assert [partition.bytes for partition in packed([Part("x", 500), Part("y", 20), Part("z", 80)], 100)] == [500, 100]


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    written = io.BytesIO()
    for info, content in entries:
        written.write(info.tobuf(tarfile.PAX_FORMAT))
        written.write(content.ljust(-(-len(content) // 512) * 512, b"\0"))
    return written.getvalue() + bytes(1024)


def entry(name: str, size: int, **more: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, given in more.items():
        setattr(info, field, given)
    return info


def found_in(content: bytes) -> list[TarEntry]:
    return list(members(io.BytesIO(content), "x.tar", lambda name: True))


def test_an_extended_header_gives_the_size_and_says_what_is_sparse() -> None:
    after = (entry("z", 1), b"z")
    sized = entry("a", 0, pax_headers={"size": "3"})
    sparse = entry("b", 2, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    found = found_in(tar_of((sized, b"abc"), (sparse, b"xy"), after))
    assert [(each.name, each.size, each.content, each.reason) for each in found] == [
        ("a", 3, b"abc", None),
        ("b", 2, None, "a sparse file"),
        ("z", 1, b"z", None),
    ]


def test_a_link_has_no_content_whatever_size_its_header_says() -> None:
    """As some programs write one: the next header follows at once."""
    found = found_in(tar_of((entry("a", 700, type=tarfile.LNKTYPE, linkname="z"), b""), (entry("z", 1), b"z")))
    assert [(each.name, each.size, each.content, each.reason) for each in found] == [
        ("a", 0, None, "a link"),
        ("z", 1, b"z", None),
    ]


def test_a_tar_that_ends_within_what_fills_a_block_is_cut() -> None:
    whole_file = tar_of((entry("z", 1), b"z"))
    assert [each.content for each in found_in(whole_file)] == [b"z"]
    with pytest.raises(Failed, match="the file ends"):
        found_in(whole_file[: 512 + 511])


def test_a_long_extended_header_is_no_header() -> None:
    header = entry("x", LONGEST + 1, type=tarfile.XHDTYPE)
    with pytest.raises(Failed, match="a header of 1,048,577 bytes"):
        found_in(tar_of((header, bytes(LONGEST + 1))))


def prepared(folder: Path, lengths: tuple[int, ...]) -> Path:
    """A folder as tensorflow-datasets prepares one: texts and the class of each, in so many shards."""
    kinds = {"text": {"pythonClassName": "x.Text", "text": {}}}
    label = {"kind": {"pythonClassName": "x.ClassLabel", "classLabel": {"numClasses": "2"}}}
    nested = {"pythonClassName": "x.FeaturesDict", "featuresDict": {"features": label}}
    schema = {"pythonClassName": "x.FeaturesDict", "featuresDict": {"features": {**kinds, "of": nested}}}
    info = {"name": "made", "splits": [{"name": "train", "shardLengths": [str(length) for length in lengths]}]}
    for name, content in (("features", schema), ("dataset_info", info)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    (folder / "of-kind.labels.txt").write_text("night\nday\n")
    first = 0
    for number, length in enumerate(lengths):
        texts = pa.array([f"t{first + each}".encode() for each in range(length)], pa.large_binary())
        classes = np.arange(first, first + length) % 2
        entries = {"text": bytes_entry("text", texts), "of/kind": integer_entry("of/kind", classes)}
        name = f"made-train.tfrecord-{number:05d}-of-{len(lengths):05d}"
        (folder / name).write_bytes(framed(examples(entries))[0])
        first += length
    return folder


def test_examples_of_many_shards_are_numbered_through_and_classes_of_nested_labels_named(tmp_path: Path) -> None:
    opened = TfdsSource(dataset="made", data_dir=str(prepared(tmp_path, (2, 3, 1))), label="of/kind").open()
    read = [rows for partition in opened.partitions() for rows in opened.read(partition)]
    assert [key for rows in read for key in rows.keys.to_pylist()] == [f"train/{number:07d}" for number in range(6)]
    texts = [text for rows in read for text in rows.columns["text"].to_pylist()]
    assert texts == [f"t{number}".encode() for number in range(6)]
    assert [kind for rows in read for kind in rows.columns["of/kind"].to_pylist()] == ["night", "day"] * 3
    assert opened.features["of/kind"].classes == ("night", "day")


@pytest.mark.parametrize(
    ("dtype", "dimensions", "encoding", "kind"),
    [
        ("float32", [], "none", "number"),
        ("int64", ["2", "3"], "none", "number[2, 3]"),
        ("float32", ["-1"], "none", "ignore"),
        ("float32", ["2", "0"], "none", "ignore"),
        ("float32", ["2"], "zlib", "ignore"),
        ("string", [], "none", "text"),
        ("string", ["2"], "none", "ignore"),
    ],
)
def test_tensors_are_read_whose_size_is_known(dtype: str, dimensions: list[str], encoding: str, kind: str) -> None:
    tensor = {"dtype": dtype, "shape": {"dimensions": dimensions} if dimensions else {}, "encoding": encoding}
    assert kind_of({"pythonClassName": "x.Tensor", "tensor": tensor}) == kind


def test_one_of_several_labels_is_named_and_targets_need_none(tmp_path: Path) -> None:
    schema = prepared(tmp_path, (3,)) / "features.json"
    content = json.loads(schema.read_text())
    features = content["featuresDict"]["features"]
    features["other"] = features["of"]["featuresDict"]["features"]["kind"]
    features["size"] = {"pythonClassName": "x.Scalar", "tensor": {"shape": {}, "dtype": "float32"}}
    schema.write_text(json.dumps(content))
    given = TfdsSource(dataset="made", data_dir=str(tmp_path))
    with pytest.raises(Refused, match="there are several: of/kind, other") as refused:
        given.open()
    assert refused.value.field == "source.label"
    chosen: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"label": "other"}, {"other": "label"}),
        ({"targets": ("size",)}, {"size": "target"}),
        ({"label": "other", "weight": "size"}, {"other": "label", "size": "weight"}),
    ]
    for settings, roles in chosen:
        found = given.model_copy(update=settings).open().features
        assert {name: each.role for name, each in found.items()} == {"text": "input", **roles}


@pytest.mark.parametrize("said", [2, 4])
def test_a_shard_with_more_or_fewer_examples_than_its_data_set_says_is_not_read(said: int, tmp_path: Path) -> None:
    info = prepared(tmp_path, (3,)) / "dataset_info.json"
    info.write_text(info.read_text().replace('"3"', f'"{said}"'))
    opened = TfdsSource(dataset="made", data_dir=str(tmp_path)).open()
    with pytest.raises(Failed, match=f"3 examples; dataset_info.json says {said}"):
        [list(opened.read(partition)) for partition in opened.partitions()]


def test_a_file_of_a_zip_begins_behind_its_extra_field(tmp_path: Path) -> None:
    """As Info-ZIP writes times."""
    info = zipfile.ZipInfo("a.txt")
    info.extra = b"UT\5\0\3\0\0\0\0"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, "content")
    tree = open_tree(tmp_path / "x.zip", None)
    assert tree.head("a.txt", 100) == b"content"


def test_a_file_is_in_the_folder_of_its_class_within_that_of_its_split(tmp_path: Path) -> None:
    (tmp_path / "train/low").mkdir(parents=True)
    for name in ("train/low/a.png", "train/b.png"):
        (tmp_path / name).touch()
    assert ImageFolderSource(path=str(tmp_path)).open().features["label"].classes == ("train",)
    with pytest.raises(Refused, match="train/b.png"):
        ImageFolderSource(path=str(tmp_path), split_folders=True).open()
