"""What `millrace init` takes a first line, a column of splits and a sample for: at the edge of each rule."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import Refused
from tasks.guess import guess_source
from tasks.guess.forms import csv, jsonl
from tasks.sources.kinds.tables import CsvSource


def table(path: Path, head: str, rows: list[str]) -> Path:
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("head", "named"),
    [("2019,2020,label", True), ("2019,2020,2021", False), ("1.5,-2,3e4", False), ("a,b,c", True), ("1,2,x1", True)],
)
def test_a_line_of_numbers_alone_is_no_line_of_names(head: str, named: bool, tmp_path: Path) -> None:
    form = csv(table(tmp_path / "t.csv", head, [f"{n},{n},{n}" for n in range(5)]))
    assert list(form.types) == (head.split(",") if named else ["column0", "column1", "column2"])
    assert ("header" in form.settings) is not named


@pytest.mark.parametrize(
    ("splits", "taken"),
    [
        (["train", "test"], True),
        (["Train", "val", "test"], True),
        (["train", "test", ""], False),
        (["train"], False),
        (["train", "test", "other"], False),
        (["test", "val"], False),
    ],
)
def test_a_column_is_the_splits_where_every_row_has_one(splits: list[str], taken: bool, tmp_path: Path) -> None:
    rows = [f"{n % 17},{splits[n % len(splits)]},{'ab'[n % 2]}" for n in range(60)]
    guess = guess_source(table(tmp_path / "t.csv", "size,split,label", rows))
    assert (guess.columns is not None) and (guess.columns.split == ("split" if taken else None))


def test_the_first_rows_of_a_small_file_are_not_taken_for_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read in one partition, of which enough rows are read."""
    monkeypatch.setattr("tasks.guess.samples.SAMPLED", 50)
    monkeypatch.setattr("tasks.sources.delimited.PARSED", 1 << 10)
    path = table(tmp_path / "t.csv", "size,label", [f"{n},{'abc'[n % 3]}" for n in range(1200)])
    guess = guess_source(path)
    assert 400 < guess.examples < 3600
    monkeypatch.setattr("tasks.guess.samples.SAMPLED", 5000)
    whole = guess_source(path)
    assert whole.examples == 1200 and whole.counts == {"a": 400, "b": 400, "c": 400}


ROWS = [f"{n}.5,{'uvw'[n % 3]},{'ab'[n % 2]}" for n in range(30)]


@pytest.mark.parametrize(
    ("head", "rows", "said"),
    [
        (
            ",size,kind,label",
            [f"{n},{row}" for n, row in enumerate(ROWS)],
            "column0: the key, as every row has another",
        ),
        ("size,kind,label,", [f"{row}," for row in ROWS], "column3: ignored, as it has no value"),
    ],
    ids=["index-of-pandas", "comma-at-the-end"],
)
def test_a_column_without_a_name_is_called_by_its_place(head: str, rows: list[str], said: str, tmp_path: Path) -> None:
    guess = guess_source(table(tmp_path / "t.csv", head, rows))
    assert guess.columns.label == "label" and said in "\n".join(guess.said)
    opened = CsvSource.model_validate(guess.source).open()
    opened.fingerprint()
    [read] = [batch for partition in opened.partitions() for batch in opened.read(partition)]
    assert {"kind", "label", "size"} <= read.columns.keys() and len(read.keys) == 30


@pytest.mark.parametrize(
    ("above", "names", "rows", "saw"),
    [
        (["Sales report,,", "made by,me,"], "size,kind,label", ROWS, "1 of the 3 cells that rows have: 'Sales report'"),
        (["# of 2023", ""], "size,kind,label", ROWS, "1 of the 3 cells that rows have: '# of 2023'"),
        ([], "size,kind,label", [f"{n},{row}" for n, row in enumerate(ROWS)], "3 of the 4 cells that rows have"),
    ],
    ids=["title", "comment", "names-of-rows-as-R-writes-them"],
)
def test_a_first_line_that_is_neither_names_nor_a_row_is_refused(
    above: list[str], names: str, rows: list[str], saw: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=saw) as refused:
        guess_source(table(tmp_path / "t.csv", "\n".join([*above, names]), rows))
    assert refused.value.rule == "the first line has the names of all columns, or is a row"


def test_an_index_of_pandas_is_no_input_and_a_field_without_a_name_is_refused(tmp_path: Path) -> None:
    cells = {"size": range(30), "label": list("ab") * 15}
    pq.write_table(pa.table({**cells, "__index_level_0__": range(30)}), tmp_path / "index.parquet")
    assert "__index_level_0__: ignored, as it is an index of pandas" in guess_source(tmp_path / "index.parquet").said
    pq.write_table(pa.table({**cells, "": range(30)}), tmp_path / "nameless.parquet")
    (tmp_path / "nameless.jsonl").write_text("".join(json.dumps({"": n, "label": "a"}) + "\n" for n in range(30)))
    for ending in ("parquet", "jsonl"):
        with pytest.raises(Refused, match="a field with an empty name; columns have names"):
            guess_source(tmp_path / f"nameless.{ending}")


def test_empty_lists_are_lists_of_what_the_others_are(tmp_path: Path) -> None:
    lists = [["new", "gift"], [], ["new"]]
    rows = [{"tags": lists[n % 3], "none": [], "size": n, "label": "ab"[n % 2]} for n in range(30)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    form = jsonl(tmp_path / "t.jsonl")
    assert form.types["tags"] == "words" and form.unread == {"none": "as all its lists are empty"}
