"""CSV: the rows are those of Python's csv module however they are split, and each bad one is named."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.config.base import identity
from tasks.errors import Failed, Refused
from tasks.sources import delimited, streams, table_files
from tasks.sources import delimited as blocks_module
from tasks.sources.delimited import Dialect, blocks
from tasks.sources.kinds import tables
from tasks.sources.kinds.tables import CsvSource
from tests.support.rows import everything

COLUMNS = {"name": "text", "age": "number"}


def source(path: Path, columns: dict[str, str] = COLUMNS, **more: Any) -> CsvSource:
    return CsvSource.model_validate({"path": str(path), "columns": columns, **more})


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., CsvSource]:
    def written(content: str | bytes, columns: dict[str, str] = COLUMNS, **more: Any) -> CsvSource:
        (tmp_path / "people.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return source(tmp_path / "people.csv", columns, **more)

    return written


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and blocks of a few bytes."""
    monkeypatch.setattr(table_files, "PARTITION_BYTES", 32)
    monkeypatch.setattr(delimited, "SCANNED", 16)
    monkeypatch.setattr(delimited, "PARSED", 32)
    monkeypatch.setattr(blocks_module, "HEAD", 8)


# The splitter


class Trickle:
    """A stream that gives any number of bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._stream, self._size = io.BytesIO(data), size

    def read(self, size: int) -> bytes:
        return self._stream.read(min(size, self._size))


@settings(max_examples=400, deadline=None)
@given(st.text('a",\n\r', max_size=60), st.integers(1, 9))
@example('a"b,c\n"d\ne",f\n', 3)
@example('"a""b",\r\n\r\nc\rd"', 1)
def test_records_are_the_rows_of_the_csv_module(text: str, size: int) -> None:
    data = text.encode()
    split = []
    for block in blocks(Trickle(data, size), Dialect(b",", b'"'), size, "a.csv"):
        ends = [*block.starts, len(block.data)][1:]
        split += [block.data[begin:end].decode() for begin, end in zip(block.starts, ends, strict=False)]
    assert [next(csv.reader(io.StringIO(record, newline=""))) for record in split] == rows_of(text)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text('a",\n\r é', max_size=6), st.text('b",\n\r', max_size=6)), max_size=12),
    st.sampled_from([(csv.QUOTE_ALL, "\r"), (csv.QUOTE_ALL, "\n"), (csv.QUOTE_MINIMAL, "\r\n")]),
    st.integers(1, 40),
)
def test_rows_are_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], written: tuple[Any, str], target: int
) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=written[0], lineterminator=written[1])
    writer.writerows([("name", "age"), *rows])
    path = tmp_path_factory.mktemp("written") / "people.csv"
    path.write_bytes(buffer.getvalue().encode())
    opened = source(path, missing=[]).open()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "PARTITION_BYTES", target)
        patch.setattr(delimited, "SCANNED", 7)
        patch.setattr(delimited, "PARSED", 11)
        read = everything(opened, backwards=True)
    assert [(name, age) for name, age in read.rows] == rows
    assert read.keys == [f"people.csv:{number:09d}" for number in range(len(rows))]
    assert not read.bad


def rows_of(text: str) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def test_a_stray_quote_is_an_ordinary_character_and_an_escaped_one_too(write: Callable, small: None) -> None:
    config = write('name,age\n5" pipe,3\n"a ""b"", c",4\nd "e,5\n')
    assert everything(config).rows == [('5" pipe', "3"), ('a "b", c', "4"), ('d "e', "5")]
    config = write('name,age\n"a \\"b\n\\"",3\nc\\,d,4\n', escape="\\")
    assert everything(config).rows == [('a "b\n"', "3"), ("c,d", "4")]
    assert len(config.open().partitions()) == 1


# Rows


def test_rows_have_their_number_and_line_after_empty_and_bad_ones(write: Callable, small: None) -> None:
    config = write('name,age\n\nann,1\n"b\nob",2\n\r\nragged\ncy,3\ndan,4,5\n\n\neve,6\nfay,7')
    for backwards in (False, True):
        read = everything(config, backwards)
        assert read.rows == [("ann", "1"), ("b\nob", "2"), ("cy", "3"), ("eve", "6"), ("fay", "7")]
        assert read.keys == [f"people.csv:00000000{number}" for number in (0, 1, 3, 5, 6)]
        assert read.places == [f"people.csv line {line}" for line in (3, 4, 8, 12, 13)]
        assert read.bad == {
            "people.csv line 7": "1 cells, and there are 2 columns",
            "people.csv line 9": "3 cells, and there are 2 columns",
        }
        assert read.bad_keys == ["people.csv:000000002", "people.csv:000000004"]
    assert len(config.open().partitions()) > 1


def test_undecodable_bytes_and_nul_bytes_are_bad_rows(write: Callable) -> None:
    read = everything(write(b"name,age\nann,1\ncaf\xe9,2\nb\0b,3\n\xff,ragged,4\ncy,5\n"))
    assert read.rows == [("ann", "1"), ("cy", "5")]
    assert read.bad == {
        "people.csv line 3": "name: byte 3 (0xe9) is not UTF-8",
        "people.csv line 4": "name: a NUL byte",
        "people.csv line 5": "3 cells, and there are 2 columns",
    }


def test_names_of_columns_are_escaped_as_cells_are(write: Callable) -> None:
    columns = {"name, first": "text", 'the "age"': "number"}
    config = write('name\\, first,"the \\"age\\""\nann,1\n', columns, escape="\\")
    assert everything(config).columns == {"name, first": ["ann"], 'the "age"': ["1"]}


def test_missing_cells_are_null(write: Callable) -> None:
    assert everything(write('name,age\nNA,\n"",1\n')).rows == [(None, None), (None, "1")]
    assert everything(write("name,age\nNA,-\n", missing=["-"])).rows == [("NA", None)]


def test_the_last_row_with_an_open_quote_is_bad_unless_it_may_hide_many(write: Callable) -> None:
    read = everything(write('name,age\nann,1\n"bob,2\ncy,3\n'))
    assert (read.rows, list(read.bad)) == ([("ann", "1")], ["people.csv line 3"])
    assert "a quote that is not closed" in read.bad["people.csv line 3"]
    config = write('name,age\nann,1\n"bob,2\n' + "cy,3\n" * 200)
    with pytest.raises(Failed, match=r"people.csv line 3: a quote that is not closed .* 201 lines"):
        everything(config)


def test_a_row_has_at_most_so_many_bytes(write: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "MAX_RECORD", 1000)
    monkeypatch.setattr(delimited, "PARSED", 100)
    config = write('name,age\nann,1\n"' + "x" * 5000)
    with pytest.raises(Failed, match="people.csv line 3: a row without an end"):
        everything(config)


# Dialects, encodings, compression


def test_dialect_bom_and_missing_header(write: Callable) -> None:
    assert everything(write(b"\xef\xbb\xbfname;age\r\n'a;b';2\r\n", delimiter=";", quote="'")).rows == [("a;b", "2")]
    assert everything(write("ann\t1\nbob\t2\n", delimiter="\t", header=["name", "age"])).rows == [
        ("ann", "1"),
        ("bob", "2"),
    ]
    assert everything(write('name,age\n"a,1\n', quote="")).rows == [('"a', "1")]


def test_the_order_of_names_decides_what_is_read_and_is_in_digests(write: Callable) -> None:
    one, other = (write("1,2\n", header=order) for order in (["name", "age"], ["age", "name"]))
    assert everything(one).rows == [("1", "2")] and everything(other).rows == [("2", "1")]
    assert identity(one) != identity(other)
    for wrong in (["name"], ["name", "age", "age"], ["name", "size"]):
        with pytest.raises(ValidationError, match="names each of source.columns once: name, age"):
            write("1,2\n", header=wrong)


@pytest.mark.parametrize(
    ("encoding", "split"), [("latin-1", True), ("cp1252", True), ("utf-16", False), ("shift_jis", False)]
)
def test_other_encodings(write: Callable, small: None, encoding: str, split: bool) -> None:
    word = "ソ表" if encoding == "shift_jis" else "café"
    config = write(("name,age\n" + f'"{word},\n",1\n' * 16).encode(encoding), encoding=encoding)
    read = everything(config)
    assert read.rows == [(f"{word},\n", "1")] * 16
    assert (len(config.open().partitions()) > 1) == split


def test_a_byte_that_an_encoding_lacks_is_a_bad_row(write: Callable) -> None:
    read = everything(write(b"name,age\n\x81,1\nok,2\n", encoding="cp1252"))
    assert (read.rows, list(read.bad)) == ([("ok", "2")], ["people.csv line 2"])
    read = everything(write(b"name,age\n\xa0\xa0,1\nok,2\n", encoding="shift_jis"))
    assert (read.rows, list(read.bad)) == ([("ok", "2")], ["people.csv line 2"])


def test_another_encoding_than_the_config_says(write: Callable) -> None:
    with pytest.raises(Failed, match="source.encoding utf-8 says otherwise"):
        everything(write("name,age\nann,1\n".encode("utf-16")))
    with pytest.raises(Refused, match="source.encoding: nonsense; unknown encoding"):
        everything(write("name,age\n", encoding="nonsense"))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
def test_compressed_files_are_streamed(tmp_path: Path, small: None, suffix: str) -> None:
    text = b"name,age\n" + b"ann,1\n" * 500
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda data: pa.compress(data, "zstd", asbytes=True)}
    path = tmp_path / f"people.csv.{suffix}"
    path.write_bytes(packed[suffix](text))
    read = everything(source(tmp_path))
    assert (len(read.rows), read.keys[-1]) == (500, f"people.csv.{suffix}:000000499")
    opened = source(path).open()
    [partition] = opened.partitions()
    assert len(list(opened.read(partition))) > 10
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(Failed, match=f"people.csv.{suffix}: .*a compressed file must be whole"):
        everything(source(path))


def test_a_decompression_bomb_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(streams, "BOMB_RATIO", 100)
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(b"name,age\n" + b"a,1\n" * 1_000_000))
    with pytest.raises(Failed, match=r"people.csv.gz: over \d+ MiB in .* bytes"):
        everything(source(tmp_path))


# Columns and files


def test_columns_are_those_of_the_config(write: Callable) -> None:
    with pytest.raises(Refused, match=r"source.columns.age: number; people.csv has the columns name, years"):
        everything(write("name,years\n"))
    with pytest.raises(Refused, match=r"extra of people.csv is not named"):
        everything(write("name,age,extra\n"))
    with pytest.raises(Refused, match=r"'name' more than once"):
        everything(write("name,age,name\n"))
    ignoring = {"name": "text", "extra": "ignore", "age": "number"}
    assert everything(write("age,extra,name\n1,2,3\n", ignoring)).columns == {"name": ["3"], "age": ["1"]}


def test_no_rows_or_nothing_at_all(write: Callable, tmp_path: Path) -> None:
    assert everything(write("name,age\n")).keys == everything(write("name,age")).keys == []
    with pytest.raises(Failed, match="people.csv: an empty file"):
        everything(write(""))
    with pytest.raises(Failed, match="people.csv: an empty file"):
        everything(write("\n\n"))
    with pytest.raises(Refused, match="no such file or folder"):
        source(tmp_path / "nowhere").open()


def test_many_small_files_are_one_piece_and_a_backup_is_none(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"part{number}.csv").write_text(f"name,age\nann,{number}\n")
    (tmp_path / "part0.csv.bak").write_text("name,age\nold,9\n")
    (tmp_path / "part0.csv~").write_text("name,age\nold,9\n")
    read = everything(source(tmp_path))
    assert read.rows == [("ann", str(number)) for number in range(5)]
    assert read.keys == [f"part{number}.csv:000000000" for number in range(5)]
    assert len(source(tmp_path).open().partitions()) == 1


def test_a_file_that_changes_ends_the_run(write: Callable, tmp_path: Path) -> None:
    opened = write("name,age\nann,1\n").open()
    assert opened.fingerprint() == [("people.csv", hashlib.sha256(b"name,age\nann,1\n").hexdigest())]
    [partition] = opened.partitions()
    write("name,age\nbob,2\n")
    os.utime(tmp_path / "people.csv", ns=(1, 1))
    with pytest.raises(Failed, match="people.csv: it changed while it was read"):
        list(opened.read(partition))


def test_a_file_that_changes_while_it_is_read_ends_the_run(write: Callable, tmp_path: Path) -> None:
    """After its rows have been read, and before they are published."""
    opened = write("name,age\nann,1\n").open()
    [partition] = opened.partitions()
    rows = opened.read(partition)
    next(rows)
    os.utime(tmp_path / "people.csv", ns=(1, 1))
    with pytest.raises(Failed, match="people.csv: it changed while it was read"):
        list(rows)


# Files that rows refer to


@pytest.fixture
def photos(tmp_path: Path) -> Callable[[str], CsvSource]:
    (tmp_path / "outside").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "images").mkdir(parents=True)
    for name in "abc":
        (root / f"images/{name}.png").write_bytes(name.encode() * 10)
    (root / "images/link.png").symlink_to(tmp_path / "outside")

    def made(*paths: str) -> CsvSource:
        (root / "photos.csv").write_text("photo,class\n" + "".join(f"{path},x\n" for path in paths))
        return source(root, {"photo": "image", "class": "category"}, label="class")

    return made


def test_paths_of_images_are_replaced_by_the_files(photos: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.sources.payloads.PARTITION_BYTES", 15)
    opened = photos("images/a.png", "./images/b.png", "images/a.png", "", "images/c.png").open()
    names = [key for key, _ in opened.fingerprint()]
    assert names == ["images/a.png", "images/b.png", "images/c.png", "photos.csv"]
    read = everything(opened)
    assert read.columns["photo"] == [b"a" * 10, b"b" * 10, b"a" * 10, None, b"c" * 10]
    assert read.keys == [f"photos.csv:00000000{number}" for number in range(5)]
    assert read.places == [f"photos.csv line {line}" for line in range(2, 7)]
    assert [len(rows.keys) for partition in opened.partitions() for rows in opened.read(partition)] == [2, 3]


def test_a_path_stays_below_the_source(photos: Callable, tmp_path: Path) -> None:
    reasons = {
        "../outside": "not a path below the source",
        str(tmp_path / "outside"): "not a path below the source",
        "images/../../outside": "not a path below the source",
        "images/link.png": "a link that leads out of the source",
        "images/none.png": "no such file",
        "images": "no such file",
    }
    opened = photos("images/a.png", *reasons).open()
    assert [key for key, _ in opened.fingerprint()] == ["images/a.png", "photos.csv"]
    read = everything(opened)
    assert read.columns["photo"] == [b"a" * 10]
    assert list(read.bad.values()) == [f"photo: {path!r}: {reason}" for path, reason in reasons.items()]


def test_an_image_that_changes_ends_the_run(photos: Callable, tmp_path: Path) -> None:
    opened = photos("images/a.png").open()
    [partition] = opened.partitions()
    (tmp_path / "root/images/a.png").write_bytes(b"other")
    with pytest.raises(Failed, match="images/a.png: other content than was listed"):
        list(opened.read(partition))


def test_signs_of_the_dialect_differ() -> None:
    assert tables.CsvSource.model_fields["glob"].default == "**/*.csv*"
    with pytest.raises(ValueError, match="differs from quote and escape"):
        source(Path("x"), delimiter='"')
