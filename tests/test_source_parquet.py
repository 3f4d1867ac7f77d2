"""Parquet: typed columns by row groups, nested ones by dotted name, and files that are not whole."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import Failed, Refused
from tasks.sources import parquet, streams, table_files
from tasks.sources.kinds.tables import ParquetSource
from tests.support.rows import everything

DAY = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


def source(path: Path, columns: dict[str, str], **more: Any) -> ParquetSource:
    return ParquetSource.model_validate({"path": str(path), "columns": columns, **more})


def numbers(path: Path, count: int, group: int = 10, **more: Any) -> None:
    table = pa.table({"number": list(range(count)), "word": [f"w{number}" for number in range(count)]})
    pq.write_table(table, path, row_group_size=group, **more)


NUMBERS = {"number": "number", "word": "category"}


@pytest.mark.parametrize("target", [1, 1000, 1 << 20])
def test_row_groups_are_pieces_and_small_ones_share_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: int
) -> None:
    monkeypatch.setattr(table_files, "PARTITION_BYTES", target)
    monkeypatch.setattr(parquet, "MAX_ROWS", 7)
    numbers(tmp_path / "a.parquet", 95)
    numbers(tmp_path / "b.parquet", 5)
    config = source(tmp_path, NUMBERS)
    read = everything(config, backwards=True)
    assert read.rows == [(number, f"w{number}") for number in [*range(95), *range(5)]]
    assert read.keys[:95] == [f"a.parquet:{number:09d}" for number in range(95)]
    assert (read.keys[-1], read.places[-1]) == ("b.parquet:000000004", "b.parquet row 5")
    partitions = len(config.open().partitions())
    assert partitions == 11 if target == 1 else partitions == 1 if target > 1000 else 1 < partitions < 11


def test_types_are_those_of_the_file(tmp_path: Path) -> None:
    table = pa.table(
        {
            "user": [{"name": "ann", "address": {"zip": "1"}, "extra": 1}, None],
            "vector": [[1.0, 2.0], None],
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "when": [DAY, None],
            "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(4, dtype=np.float32).reshape(2, 2)),
            "no.dots": [1, 2],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    columns = {"user.name": "text", "user.address.zip": "category", "user.extra": "ignore", "vector": "number[2]"}
    columns |= {"kind": "category", "when": "time", "tensor": "number[2]", "no.dots": "number"}
    read = everything(source(tmp_path, columns))
    assert read.columns == {
        "user.name": ["ann", None],
        "user.address.zip": ["1", None],
        "vector": [[1, 2], None],
        "kind": ["a", "b"],
        "when": [DAY, None],
        "tensor": [[0, 1], [2, 3]],
        "no.dots": [1, 2],
    }


def test_columns_are_those_of_the_config(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [{"name": "ann", "age": 1}]}), tmp_path / "a.parquet")
    with pytest.raises(Refused, match=r"user.age of a.parquet is not named"):
        source(tmp_path, {"user.name": "text"}).open()
    with pytest.raises(Refused, match=r"source.columns.age: number; a.parquet has the columns user.name, user.age"):
        source(tmp_path, {"age": "number", "user.name": "text", "user.age": "number"}).open()
    pq.write_table(pa.table({"user": [{"name": "ann"}]}), tmp_path / "b.parquet")
    with pytest.raises(Refused, match=r"user.age: number; b.parquet has"):
        everything(source(tmp_path, {"user.name": "text", "user.age": "number"}))


def test_a_text_that_is_not_utf8_is_a_bad_row(tmp_path: Path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff!"]).buffers())
    pq.write_table(pa.table({"word": broken, "number": [1, 2]}), tmp_path / "a.parquet")
    read = everything(source(tmp_path, NUMBERS))
    assert read.columns == {"number": [1], "word": ["ok"]}
    assert read.bad == {"a.parquet row 2": "word: byte 0 (0xff) is not UTF-8"}


def test_a_file_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    numbers(path, 1000, 1000, write_page_checksum=True)
    whole = path.read_bytes()
    config = source(path, NUMBERS)
    for broken in (whole[:-20], b"", b"PAR1", b"some,text\n", whole[:-8] + b"\xff\xff\xff\x7fPAR1"):
        path.write_bytes(broken)
        with pytest.raises(Failed, match=r"a.parquet: .*"):
            everything(config)
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(Failed, match=r"a.parquet: .*CRC"):
        everything(config)


def test_a_decompression_bomb_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(streams, "BOMB_RATIO", 100)
    table = pa.table({"word": ["a" * 1000] * 10_000, "number": [1] * 10_000})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(Failed, match=r"a.parquet: over \d+ MiB"):
        everything(source(tmp_path, NUMBERS))


@pytest.mark.parametrize("form", ["path", "bytes", "struct"])
def test_images_by_path_or_as_bytes(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.png").write_bytes(b"of a")
    forms = {
        "path": ["a.png", None, "../x"],
        "bytes": [b"of a", None, b"of c"],
        "struct": [{"bytes": None, "path": "a.png"}, None, {"bytes": b"of c", "path": "c.png"}],
    }
    pq.write_table(pa.table({"photo": forms[form], "class": ["x", "y", "z"]}), tmp_path / "t.parquet")
    config = source(tmp_path, {"photo": "image", "class": "category"}, label="class")
    files = [key for key, _ in config.open().fingerprint()]
    assert files == (["t.parquet"] if form == "bytes" else ["a.png", "t.parquet"])
    read = everything(config)
    assert read.columns["photo"] == [b"of a", None] + ([b"of c"] if form != "path" else [])
    assert read.bad == ({"t.parquet row 3": "photo: '../x': not a path below the source"} if form == "path" else {})


def test_bytes_alone_are_not_read_for_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"bytes": b"of a", "path": "a.png"}]
    pq.write_table(pa.table({"photo": rows, "class": ["x"]}), tmp_path / "t.parquet")
    config = source(tmp_path, {"photo": "image", "class": "category"})
    opened = config.open()
    monkeypatch.setattr(parquet.Parquet, "rows", lambda *_: pytest.fail("it was read"))
    assert [key for key, _ in opened.fingerprint()] == ["t.parquet"]
