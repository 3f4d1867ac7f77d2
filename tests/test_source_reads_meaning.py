"""Parquet, databases and folders as other tools write them: what their columns mean."""

from __future__ import annotations

import datetime
import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.config.compose import validate
from tasks.errors import Failed, Refused
from tasks.exporting.raw_rows import rows_of
from tasks.guess import Choices, guess_source
from tasks.reader import cast
from tasks.records import column_types
from tasks.sources import sql as sql_module
from tasks.sources.features import Feature, in_order
from tasks.sources.kinds.folders import TextFilesSource
from tasks.sources.kinds.tables import CsvSource, ParquetSource, SqlSource


def columns_of(config: Any) -> dict[str, list[Any]]:
    opened = config.open()
    opened.fingerprint()
    read: dict[str, list[Any]] = {}
    for partition in opened.partitions():
        for rows in opened.read(partition):
            for name, values in rows.columns.items():
                read.setdefault(name, []).extend(values.to_pylist())
    return read


def parquet(path: Path, columns: dict[str, str]) -> ParquetSource:
    return ParquetSource.model_validate({"path": str(path), "columns": columns})


def test_times_of_any_century(tmp_path: Path) -> None:
    """INT96 of nanoseconds ends in 2262."""
    times = [datetime.datetime(1500, 1, 1, 12), datetime.datetime(2024, 5, 31), datetime.datetime(3000, 2, 3)]
    path = tmp_path / "t.parquet"
    table = pa.table({"at": pa.array(times, pa.timestamp("us")), "a": [1, 2, 3]})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert columns_of(parquet(path, {"at": "time", "a": "number"}))["at"] == times
    [rows] = rows_of(path, {"at": "time"}, None)
    assert [row["at"] for row in rows] == times, "in predict, too"


def test_classes_have_the_names_that_the_schema_notes(tmp_path: Path) -> None:
    noted = {"info": {"features": {"label": {"names": ["zebra", "ant", "cow"], "_type": "ClassLabel"}}}}
    schema = pa.schema([("a", pa.int64()), ("label", pa.int64())], {"huggingface": json.dumps(noted)})
    labels = [-1 if n == 5 else n % 3 for n in range(90)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(90)), "label": labels}, schema), path)
    guess = guess_source(path)
    assert guess.source["classes"] == ["zebra", "ant", "cow"]
    assert guess.counts == {"ant": 30, "cow": 29, "zebra": 30}
    read = columns_of(parquet(path, {"a": "number", "label": "category"}))["label"]
    assert read[:6] == ["zebra", "ant", "cow", "zebra", "ant", None]


def test_a_column_beside_a_struct_of_its_name_keeps_its_nulls(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"user": [{"age": 1}, {"age": 2}], "user.age": [None, 5], "a": [1, 2]}), path)
    assert columns_of(parquet(path, {"user.age": "number", "a": "number"}))["user.age"] == [None, 5]


def test_every_type_of_arrow_is_read_or_ignored_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {
        "half": pa.array(np.arange(60, dtype=np.float16)),
        "map": pa.array([[("k", n)] for n in range(60)], pa.map_(pa.string(), pa.int64())),
        "took": pa.array(range(60), pa.duration("s")),
        "clock": pa.array(range(60), pa.time32("s")),
        "cost": pa.array([Decimal(f"{n}.25") for n in range(60)]),
        "kind": pa.array(["x", "y"] * 30).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    guess = guess_source(path)
    assert guess.columns.types == {"half": "number", "cost": "number", "kind": "category"} | dict.fromkeys(
        ("map", "took", "clock"), "ignore"
    )
    assert "took: ignored, duration[s] is not read" in guess.said
    half = column_types.typed(Feature("number", "float32"), columns["half"], 0)
    assert half.values.to_pylist() == list(range(60)) and not half.bad
    with pytest.raises(Refused, match=r"--label: map, map<string, int64.* is not read"):
        guess_source(path, Choices(label="map"))


def test_a_missing_list_among_those_of_one_size_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), "a": [1, 2]}), path)
    with pytest.raises(Failed, match="Arrow reads no missing list in a column of lists of one size"):
        columns_of(parquet(path, {"v": "number[2]", "a": "number"}))


def test_keys_that_differ_in_case_are_ordered_and_cut_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_module, "PARTITION_BYTES", 64)
    path = tmp_path / "t.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (k TEXT COLLATE NOCASE, a INTEGER)")
        keys = [f"{sign}{n}" for n in range(20) for sign in "aA"]
        database.executemany("INSERT INTO t VALUES (?, ?)", [(key, n) for n, key in enumerate(keys)])
    config = SqlSource.model_validate(
        {"url": f"sqlite:///{path}", "query": "t", "key": "k", "columns": {"k": "category", "a": "number"}}
    )
    assert columns_of(config)["k"] == sorted(keys)


def test_whole_numbers_are_in_their_order_in_every_source(tmp_path: Path) -> None:
    assert in_order(["10", "9", "2", "-1"]) == ["-1", "2", "9", "10"] and in_order(["10", "9", "b"]) == ["10", "9", "b"]
    for n in range(22):
        folder = tmp_path / "texts" / str(n % 11)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n}.txt").write_text(f"text {n}")
    folders = TextFilesSource.model_validate({"path": str(tmp_path / "texts"), "class_folders": True})
    assert folders.open().features["label"].classes == tuple(map(str, range(11)))


def test_an_unknown_key_is_told_where_it_is() -> None:
    with pytest.raises(Refused, match=r"did you mean train\.steps\?"):
        validate({"name": "a", "source": {"kind": "sklearn", "dataset": "digits"}, "steps": 5})


def test_blanks_around_a_cell_that_means_a_missing_value(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a, kind\n1, ?\n 2, Private\n NA ,?\n")
    config = CsvSource.model_validate(
        {"path": str(tmp_path / "t.csv"), "columns": {"a": "number", " kind": "category"}, "missing": ["", "NA", "?"]}
    )
    assert columns_of(config) == {"a": ["1", " 2", None], " kind": [None, " Private", None]}
    assert cast.column([" ? ", " Private"], "category", missing={"?"}) == ["", "Private"]
