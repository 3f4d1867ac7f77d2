"""`millrace init --schema` writes rules that the data keeps, and that a broken row breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from flows.commands import app
from tasks.config.compose import load
from tasks.errors import Failed
from tasks.guess.found import Columns
from tasks.guess.schema import rules_of, schema_of
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tests.support.raw_data import rows, write_csv

BROKEN = {
    "height": (-999, "-999; must be at least -8.5"),
    "city": ("Olso", "'Olso'; must be one of 'Lima', 'Oslo', 'Rome'"),
    "when": ("", "missing"),
    "note": ("rain", "'rain'; must have at least 14 and at most 54 characters"),
}


def init(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, ["init", *words])


def test_the_rules_hold_and_a_broken_row_is_quarantined(
    tmp_path: Path, bench: Workbench, benches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "people.csv", rows())
    said = init(tmp_path, monkeypatch, "people.csv", "--schema")
    assert said.exit_code == 0 and "wrote people.schema.yaml" in said.stdout
    config = load(tmp_path / "people.yaml")
    assert config.records.schema_file == str(tmp_path / "people.schema.yaml")
    whole = conversion.build(bench, config.source, config.records)
    assert whole.counts["examples"] == whole.counts["read"] == 300

    for number, (column, (value, reason)) in enumerate(BROKEN.items()):
        write_csv(tmp_path / "people.csv", [*rows(), {**rows()[7], "id": 999, column: value}])
        with pytest.raises(Failed, match="1 bad: people.csv line 302"):
            conversion.build(benches(f"strict{number}"), config.source, config.records)
        lenient = benches(f"lenient{number}")
        outcome = conversion.build(lenient, config.source, config.records.model_copy(update={"bad_budget": 1}))
        assert (outcome.counts["examples"], outcome.counts["quarantined"]) == (300, 1)
        [file] = lenient.staging.pieces("quarantine")
        [line] = (lenient.staging.root / file).read_text().splitlines()
        assert json.loads(line)["reason"] == f"{column}: {reason}"


def test_nothing_is_overwritten_and_no_preset_stands_without_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "people.csv", rows())
    (tmp_path / "people.schema.yaml").write_text("mine")
    refused = init(tmp_path, monkeypatch, "people.csv", "--schema")
    assert refused.exit_code == 2 and not (tmp_path / "people.yaml").exists()
    assert (tmp_path / "people.schema.yaml").read_text() == "mine"
    assert init(tmp_path, monkeypatch, "people.csv").exit_code == 0
    assert load(tmp_path / "people.yaml").records.schema_file is None


def test_texts_have_no_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book").mkdir()
    for number in range(40):
        (tmp_path / f"book/{number}.txt").write_text(f"chapter {number}\n" * 20)
    refused = init(tmp_path, monkeypatch, "book", "--schema")
    assert refused.exit_code == 2 and "rules are of a table's columns" in refused.output
    assert not list(tmp_path.glob("*.yaml"))


def test_rules_leave_room_for_rows_that_were_not_seen() -> None:
    """Of an exponential tail 300 rows, then those of 300 times as many."""
    random = np.random.default_rng(0)
    seen, later = random.exponential(size=300), random.exponential(size=90_000)
    rules = {name: value for name, value, _ in rules_of("number", pa.array(seen))}
    assert rules["min"] == 0.0, "what is never negative stays so"
    assert seen.max() < later.max() <= rules["max"] < 100 * seen.mean()
    assert [name for name, *_ in rules_of("category", pa.array(["a", "a", "b", "b"]))] == ["nullable", "values"]
    assert [name for name, *_ in rules_of("category", pa.array(["a", "a", "b"]))] == ["nullable"], "b may not be all"
    [_, (_, begin, _)] = rules_of("time", pa.array(["0001-01-01", "2024-01-01"]))
    assert yaml.safe_load(begin).year == 53, "the calendar begins with the year 1"
    assert [value for _, value, _ in rules_of("number", pa.array([7.0, None]))] == [True, 0.0, 14.0]
    assert [value for _, value, _ in rules_of("number", pa.array([-7.0]))] == [False, -14.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "values", "rules"),
    [
        ("time", ["2020-01-01", "2022-01-01T12:00"], {"nullable": False, "min": "2017-12-30"}),
        ("time", ["2020-01-01", "", "2020-01-01"], {"nullable": True, "min": "2020-01-01"}),
        ("time", ["", ""], {"nullable": True}),
        ("text", ["ab", "abcd", ""], {"nullable": True, "min_length": 1, "max_length": 6}),
        ("text", ["a", "a" * 123], {"nullable": False, "max_length": 250}),
        ("category", ["b", "a", "b", "a", ""], {"nullable": True, "values": ["a", "b"]}),
        ("number", [1.0, 3.0], {"nullable": False, "min": 0.0, "max": 5.0}),
        ("number", [-3.0, -1.0], {"nullable": False, "min": -5.0, "max": 0.0}),
        ("number", [-1.0, 3.0], {"nullable": False, "min": -5.0, "max": 7.0}),
        ("number", [1234.0, 1234.5], {"nullable": False, "min": 1200.0, "max": 1300.0}),
        ("number", [0.0], {"nullable": False, "min": 0.0, "max": 1.0}),
    ],
)
def test_a_rule_is_as_far_outside_of_what_was_seen_as_that_is_wide(
    kind: str, values: list[Any], rules: dict[str, Any]
) -> None:
    assert {name: value for name, value, _ in rules_of(kind, pa.array(values))} == rules


def test_the_file_of_rules_has_each_column_that_is_read_but_the_key_and_the_label() -> None:
    types = {
        "height": "number",
        "id": "category",
        "photo": "image",
        "city": "category",
        "kind": "category",
        "x": "ignore",
    }
    sample = {name: pa.array([1.0, 3.0] if name == "height" else ["a", "a"]) for name in types}
    written = yaml.safe_load(schema_of("rows.csv", Columns(types, "id", "kind"), sample))
    assert written == {
        "columns": {"height": {"nullable": False, "min": 0.0, "max": 5.0}, "city": {"nullable": False, "values": ["a"]}}
    }
    assert schema_of("rows.csv", Columns(types, "id", "kind"), sample).startswith("# Rules of rows.csv, from 2 rows;")
