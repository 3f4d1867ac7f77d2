"""`millrace init` on files of rows and databases: types, roles, and the preset that follows from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from flows.preset_text import preset_of
from tasks.config.compose import Config, load
from tasks.errors import Refused
from tasks.guess import Choices, Guess, guess_source
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tests.support.raw_data import COUNT, rows, write_csv


def config_of(guess: Guess, folder: Path) -> Config:
    preset = folder / f"{guess.name}.yaml"
    preset.write_text(preset_of(guess, preset))
    return load(preset)


EXPECTED = {
    "id": "number",
    "height": "number",
    "city": "category",
    "when": "time",
    "note": "text",
    "name": "ignore",
    "same": "ignore",
    "species": "category",
}


def check(guess: Guess) -> None:
    assert guess.columns.types == EXPECTED
    assert (guess.columns.key, guess.columns.label) == ("id", "species")
    assert guess.counts == {"cat": 100, "dog": 100, "owl": 100}
    said = "\n".join(guess.said)
    for words in ("name: ignored, as nearly every row", "same: ignored, as all its values are equal", "id: the key"):
        assert words in said, said


def test_types_and_roles_of_every_form(tmp_path: Path, bench: Workbench) -> None:
    table = rows()
    (tmp_path / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "people.parquet")
    with sqlite3.connect(tmp_path / "people.db") as database:
        names = ", ".join("id INTEGER PRIMARY KEY" if name == "id" else f'"{name}"' for name in table[0])
        database.execute(f"CREATE TABLE people ({names})")
        marks = ", ".join("?" * len(table[0]))
        database.executemany(f"INSERT INTO people VALUES ({marks})", [tuple(row.values()) for row in table])
    write_csv(tmp_path / "people.csv", table)
    for path in ("people.csv", "people.jsonl", "people.parquet", "people.db"):
        guess = guess_source(tmp_path / path)
        check(guess)
        config = config_of(guess, tmp_path)
        assert config.source.kind == {".db": "sql"}.get(Path(path).suffix, Path(path).suffix[1:])
        assert (config.model.kind, config.model.task, config.snapshot.kind) == ("mlp", "classification", "table")
    read = config_of(guess_source(tmp_path / "people.csv"), tmp_path)
    counts = conversion.build(bench, read.source, read.records).counts
    assert counts["examples"] == COUNT and counts["quarantined"] == 0


def test_a_dialect_is_frozen_in_the_preset(tmp_path: Path, bench: Workbench) -> None:
    table = [{**row, "city": "Zürich" if row["city"] == "Rome" else row["city"]} for row in rows()]
    guess = guess_source(write_csv(tmp_path / "swiss.csv", table, ";", "cp1252"))
    assert (guess.source["delimiter"], guess.source["encoding"]) == (";", "cp1252")
    outcome = conversion.build(bench, config_of(guess, tmp_path).source, config_of(guess, tmp_path).records)
    top = dict(outcome.statistics["splits"]["train"]["city"]["top"])
    assert "Zürich" in top


def test_a_number_of_many_values_is_a_regression_and_the_user_decides(tmp_path: Path) -> None:
    table = [{"a": number % 7, "b": number * 0.5, "price": number * 1.25 + 3} for number in range(120)]
    path = write_csv(tmp_path / "flats.csv", table)
    guess = guess_source(path)
    assert guess.columns.targets == ("price",)
    assert config_of(guess, tmp_path).model.task == "regression"
    chosen = guess_source(path, Choices(label="a"))
    assert (chosen.columns.label, chosen.task) == ("a", "classification")
    assert chosen.classes == [str(number) for number in range(7)]
    with pytest.raises(Refused, match="must be one of a, b, price"):
        guess_source(path, Choices(label="c"))


def test_a_key_is_said_as_it_was_chosen_and_refused_where_it_repeats(tmp_path: Path) -> None:
    table = [{"id": number, "other": f"x{number}", "a": number % 7, "label": "ab"[number % 2]} for number in range(60)]
    path = write_csv(tmp_path / "keys.csv", table)
    assert "id: the key, as every row has another value" in guess_source(path).said
    chosen = guess_source(path, Choices(key="other"))
    assert chosen.columns.key == "other" and "other: the key" in chosen.said
    with pytest.raises(Refused, match="--key: a, with missing or repeated values"):
        guess_source(path, Choices(key="a"))


def test_numbers_with_a_decimal_comma_are_read_as_such(tmp_path: Path) -> None:
    table = [{"a": f"{number % 9},5", "b": f"1.{number:03d},25", "label": "ab"[number % 2]} for number in range(60)]
    guess = guess_source(write_csv(tmp_path / "german.csv", table, ";"))
    said = "\n".join(guess.said)
    assert "a: number, '0,5' is read as 0.5" in said and "b: number, '1.000,25' is read as 1000.25" in said
    assert guess.source["formats"] == {"a": {"decimal": ","}, "b": {"decimal": ",", "thousands": "."}}


def test_rows_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    table = [{"a": number % 7, "b": number * 0.5, "label": "ab"[number % 2]} for number in range(60)]
    path = write_csv(tmp_path / "ragged.csv", table)
    path.write_text(path.read_text() + "1,2\n")
    line = "1 of the rows cannot be read, as ragged.csv line 62: 2 cells, and there are 3 columns"
    assert f"{line}; correct them, or raise records.bad_budget" in guess_source(path).said


def test_arrays_in_json_are_arrays_of_numbers_or_ignored(tmp_path: Path, bench: Workbench) -> None:
    rows = [
        {"of": {"three": [number, 0.5, 1], "grid": [[1, 2.5], [number, 4]], "words": ["a"] * (number % 3)}, "many": []}
        | {"ragged": [1.5] * (1 + number % 2), "flags": [True, False], "label": number % 2 == 0}
        for number in range(60)
    ]
    (tmp_path / "arrays.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    guess = guess_source(tmp_path / "arrays.jsonl")
    ignored = dict.fromkeys(("of.words", "many", "ragged", "flags"), "ignore")
    assert guess.columns.types == {"of.three": "number[3]", "of.grid": "number[2, 2]", "label": "category", **ignored}
    assert "ragged: ignored, as its lists are not numbers of one shape" in guess.said
    config = config_of(guess, tmp_path)
    assert conversion.build(bench, config.source, config.records).counts["examples"] == 60


def test_imbalance_missing_values_and_few_rows_are_said_and_met(tmp_path: Path) -> None:
    table = [
        {"a": None if number % 2 else number, "b": number, "label": "rare" if number % 10 == 0 else "common"}
        for number in range(400)
    ]
    guess = guess_source(write_csv(tmp_path / "rare.csv", table))
    said = "\n".join(guess.said)
    rare = "90% are of one class: average precision of rare decides, not accuracy"
    for words in ("a: 50% are missing", "imbalanced classes (1 to 9)", rare, "few rows"):
        assert words in said, said
    config = config_of(guess, tmp_path)
    assert config.train.class_weights == "balanced"
    assert (config.evaluate.primary, config.evaluate.positive) == ("average_precision", "rare")


def test_paths_of_images_are_images(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    table = []
    for number in range(40):
        Image.new("L", (4, 4), number * 5).save(tmp_path / f"photos/{number}.png")
        table.append({"photo": f"photos/{number}.png", "size": number, "label": "ab"[number % 2]})
    guess = guess_source(write_csv(tmp_path / "photos.csv", table))
    assert guess.columns.types["photo"] == "image"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a,b\n", "no rows; a table has rows"),
        ("", "odd.csv: no line of column names; a CSV file begins with one"),
        ("a,a,label\n1,2,x\n", "more than once"),
        ("note\nhello there my dear friend\n", "one column is predicted from the others"),
    ],
)
def test_what_is_no_table_to_learn_from_is_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(content)
    with pytest.raises(Refused, match=says):
        guess_source(tmp_path / "odd.csv")


@pytest.mark.parametrize("others", ["age,hours\n1,2\n", "amount,returned,age\n1,yes,2\n"])
def test_tables_with_other_columns_are_told_apart(others: str, tmp_path: Path) -> None:
    """A folder of two tables is refused by what it holds, not by a preset that nobody has written."""
    (tmp_path / "a.csv").write_text("amount,returned\n" + "1,no\n2,yes\n" * 20)
    (tmp_path / "b.csv").write_text(others)
    names = others.partition("\n")[0].replace(",", ", ")
    rule = (
        rf"PATH: b.csv has the columns {names}; the tables of a folder have the same columns, as amount, returned; name"
    )
    with pytest.raises(Refused, match=rule):
        guess_source(tmp_path)


def test_a_database_of_several_tables_needs_a_choice(tmp_path: Path, monkeypatch: Any) -> None:
    with sqlite3.connect(tmp_path / "two.db") as database:
        for name in ("one", "two"):
            database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, x REAL, label TEXT)")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", [(n, n / 2, "ab"[n % 2]) for n in range(50)])
    with pytest.raises(Refused, match="tables one, two; .*add --table one"):
        guess_source(tmp_path / "two.db")
    assert guess_source(f"sqlite:///{tmp_path}/two.db", Choices(table="two")).examples == 50


def test_a_large_table_is_sampled_at_its_beginning_middle_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benches: Callable
) -> None:
    table = [{"x": number, "label": "abc"[number // 1000]} for number in range(3000)]
    path = write_csv(tmp_path / "sorted.csv", table)
    monkeypatch.setattr("tasks.sources.table_files.PARTITION_BYTES", 4000)
    monkeypatch.setattr("tasks.guess.samples.SAMPLED", 300)
    guess = guess_source(path)
    assert set(guess.counts) == {"a", "b", "c"}
    assert 1500 < guess.examples < 6000
