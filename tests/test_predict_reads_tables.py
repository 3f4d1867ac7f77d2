"""`millrace predict` reads rows in the form of the table that the model was trained on, and names what is not of it."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.commands.predict import formatted
from tasks.artifacts import Records, Snapshot
from tasks.config.base import identity
from tasks.errors import Failed
from tasks.exporting import raw_rows
from tasks.exporting.preprocess import read_transform
from tasks.exporting.raw_rows import rows_of
from tasks.exporting.readme import RAW_INPUTS
from tasks.exporting.score import _preprocessed
from tasks.guess.splits import choose, examples_of
from tasks.reader import Unusable
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources.features import Feature
from tasks.sources.kinds.tables import CsvSource
from tasks.store.files import pretty

COLUMNS = {"Größe": "number", "Straße": "category", "Urteil": "category"}
INPUTS = {"Größe": "number", "Straße": "category"}
ROWS = [("174", "Müllerweg", "klein"), ("182", "Am; Öl", "groß"), ("165", "'Süd", "klein")]
FORMS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "semicolons in cp1252": {"encoding": "cp1252", "delimiter": ";"},
    "tabs in UTF-16": {"encoding": "utf-16", "delimiter": "\t"},
    "other quotes": {"delimiter": ";", "quote": "|"},
    "escapes and no quotes": {"delimiter": ";", "quote": "", "escape": "\\"},
    "no header": {"encoding": "cp1252", "delimiter": ";", "header": ["Straße", "Urteil", "Größe"]},
}


def written(path: Path, rows: list[tuple[str, ...]], source: CsvSource, names: list[str]) -> Path:
    """A file of the source's form with some of its columns, also a compressed one."""
    quoting = {"quotechar": source.quote} if source.quote else {"quoting": csv.QUOTE_NONE}
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding=source.encoding) as file:
        writer = csv.writer(file, delimiter=source.delimiter, escapechar=source.escape or None, **quoting)  # type: ignore[arg-type]
        lines = [] if source.header is not True else [names]
        places = [list(COLUMNS).index(name) for name in names]
        writer.writerows(lines + [[row[place] for place in places] for row in rows])
    return path


@pytest.fixture(params=FORMS, ids=[name.replace(" ", "-") for name in FORMS])
def trained(
    request: pytest.FixtureRequest, tmp_path: Path, workbench_at: Callable, publish: Callable
) -> tuple[CsvSource, dict[str, Any]]:
    """A table in some form, and the transform of an export of it."""
    settings = {"path": str(tmp_path / "table.csv"), "columns": COLUMNS, "label": "Urteil", **FORMS[request.param]}
    source = CsvSource.model_validate(settings)
    names = list(COLUMNS) if source.header is True else list(source.header)
    written(tmp_path / "table.csv", ROWS * 20, source, names)
    bench = workbench_at(tmp_path / "records")
    shares = {"train": 0.6, "validation": 0.2, "test": 0.2}
    drawn = choose(examples_of(source.model_dump()), [shares])  # three rows are all that there is
    assert drawn is not None
    config = RecordsConfig(splits=shares, split_seed=drawn[1])
    made = publish(Records, bench, conversion.build(bench, source, config))
    manifest = made.manifest | {"inputs": {"config": {"source": identity(source)}}}
    (made.path / "manifest.json").write_bytes(pretty(manifest))
    bench = workbench_at(tmp_path / "snapshot")
    return source, read_transform(publish(Snapshot, bench, snapshots.build(bench, made, TableSnapshot())).path)


def test_rows_are_read_as_those_of_the_training(trained: tuple[CsvSource, dict[str, Any]], tmp_path: Path) -> None:
    source, transform = trained
    for names in (["Straße", "Urteil", "Größe"], ["Straße", "Größe"]):
        for file in ("new.csv", "new.csv.gz"):
            path = written(tmp_path / file, ROWS, source, names)
            [rows] = rows_of(path, INPUTS, transform["csv"])
            expected = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
            assert rows == [{name: row[name] for name in names} for row in expected]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_readme_reads_them_alike(
    trained: tuple[CsvSource, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, transform = trained
    written(tmp_path / "example.csv", ROWS, source, list(source.columns if source.header is True else source.header))
    monkeypatch.chdir(tmp_path)
    rows = eval(RAW_INPUTS["table"].fields(transform)["rows"], {"csv": csv})
    assert [tuple(row[name] for name in COLUMNS) for row in rows] == ROWS


SEMICOLONS = {"encoding": "cp1252", "delimiter": ";", "quote": '"', "escape": "", "header": None, "outputs": ["c"]}
NAMELESS = {**SEMICOLONS, "header": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("content", "form", "saw", "rule"),
    [
        (b"a,b\n1,2\n", SEMICOLONS, "no column a in 'a,b'", "the model reads a, b, of a file in cp1252 with cells sep"),
        ("a;b\nMüller;2\n".encode(), SEMICOLONS, "UTF-8", "rows are in cp1252, as those of the training were"),
        (b"a;b\n\x81;2\n", SEMICOLONS, "byte 0x81", "must be text in cp1252"),
        (b"a;b\n1;2\n3\n", SEMICOLONS, "1 cells", "a row has 2: a, b"),
        (b"a;b;a\n1;2;3\n", SEMICOLONS, "several columns a", "columns have different names"),
        (b"1,2,3\n", NAMELESS, "1 cells, separated by ';'", "a row has 3: a, b, c; or those without c"),
        (b"1;2\n1;2;3\n", NAMELESS, "3 cells", "a row has 2: a, b"),
        (b"", SEMICOLONS, "an empty file", "a table has rows"),
        (b"a#b\n1#2\n", None, "no column a in 'a#b'", "cells separated by ',' or ';' or"),
        (b"a,b\n\xff,2\n", None, "byte 0xff", "must be text in utf-8"),
        (b"a,b\n1,2\r3\n", {**SEMICOLONS, "encoding": "utf-16"}, "", "must be text in utf-16"),
    ],
)
def test_a_file_of_another_form_is_named(
    content: bytes, form: dict[str, Any] | None, saw: str, rule: str, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_bytes(content)
    with pytest.raises(Failed) as failed:
        list(raw_rows.csv_rows(tmp_path / "new.csv", ["a", "b"], form))
    assert str(tmp_path / "new.csv") in failed.value.field
    assert saw in str(failed.value.saw) and rule in failed.value.rule


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_table_without_rows_is_an_error(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"new.{ending}"
    path.write_text({"csv": "a,b\n", "jsonl": "\n"}.get(ending, ""))
    if ending == "parquet":
        pq.write_table(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}), path)
    with pytest.raises(Failed, match="no rows; a table has rows"):
        list(rows_of(path, {"a": "number", "b": "number"}, None))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.1235"), (9999.4, "9999"), (127932.4, "127932"), (-1958710.0, "-1958710"), (1e20, "1e+20")],
)
def test_a_predicted_number_has_all_digits_before_its_point(value: float, text: str) -> None:
    assert formatted({"input": "new.csv:1", "values": {"price": value}}) == f"new.csv:1: price {text}"


def test_a_column_without_a_name_is_called_as_in_the_training(tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(",a,b,\n7,1,2,\n")
    assert list(raw_rows.csv_rows(tmp_path / "new.csv", ["a", "b"], None)) == [
        {"column0": "7", "a": "1", "b": "2", "column3": ""}
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_of_a_model_of_other_files_the_delimiter_is_that_with_which_all_columns_are_there(
    delimiter: str, tmp_path: Path
) -> None:
    lines = [delimiter.join(row) for row in (("b", "x,y;z", "a"), ("1", "2,3;4", "5"))]
    (tmp_path / "new.csv").write_text("\ufeff" + "\n".join(lines).replace(",", "." if delimiter == "," else ","))
    if delimiter == ",":
        (tmp_path / "new.csv").write_text("b,x,a\n1,2;3,5\n")
    [row] = raw_rows.csv_rows(tmp_path / "new.csv", ["a", "b"], None)
    assert (row["a"], row["b"]) == ("5", "1")


def test_json_lines_are_utf8(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_bytes("\ufeff".encode() + json.dumps({"a": "é"}, ensure_ascii=False).encode())
    assert list(rows_of(tmp_path / "new.jsonl", {"a": "text"}, None)) == [[{"a": "é"}]]
    (tmp_path / "new.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(Failed, match="new.jsonl line 2: Expecting value at character 6; a line is a JSON object"):
        list(rows_of(tmp_path / "new.jsonl", {"a": "text"}, None))
    (tmp_path / "new.jsonl").write_bytes(b'{"a": "\xe9"}\n')
    with pytest.raises(Failed, match="byte 0xe9.*must be text in utf-8"):
        list(rows_of(tmp_path / "new.jsonl", {"a": "text"}, None))


def test_a_record_that_an_export_cannot_read_is_named_by_its_key() -> None:
    class Broken:
        columns = {"a": "number"}

        def apply(self, values: Any, count: int) -> Any:
            error = Unusable(1, "9 bytes", "must be a whole sound file")
            error.column = "a"
            raise error

    table = pa.table({"key": ["x/1.wav", "x/2.wav"], "a": [1.0, 2.0]})
    with pytest.raises(Failed, match="^x/2.wav: a: 9 bytes; must be a whole sound file; see the record"):
        _preprocessed(Broken(), {"a": Feature("number", "float32")}, table)  # type: ignore[arg-type]
