"""Records of columns: roles, splits, filter, rules, quarantine, and the counts that always add up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Outcome, Records
from tasks.config.base import Conflict
from tasks.errors import Failed, Refused
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.sources.features import OTHER
from tasks.sources.kinds.tables import CsvSource

COLUMNS = {
    "id": "category",
    "age": "number",
    "city": "category",
    "when": "time",
    "fold": "category",
    "kind": "category",
    "worth": "number",
}
ROLES = {"key": "id", "label": "kind", "weight": "worth", "time": "when", "split": "fold"}
SPLITS = {"train": 0.6, "validation": 0.2, "test": 0.2}


def row(number: int, **changed: object) -> dict[str, object]:
    values = {
        "id": f"p{number:03d}",
        "age": 20 + number * 0.5,
        "city": ["Rome", "Oslo", ""][number % 3],
        "when": f"2024-{number % 12 + 1:02d}-01",
        "fold": ["train", "train", "val", "test"][number % 4],
        "kind": "ab"[number % 2],
        "worth": number % 3 + 1,
    }
    return {**values, **changed}


def source(folder: Path, rows: list[dict[str, object]], **settings: Any) -> CsvSource:
    lines = [",".join(COLUMNS), *(",".join(map(str, each.values())) for each in rows)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    values = {"path": str(folder / "people.csv"), "columns": COLUMNS, "name": "people", **ROLES, **settings}
    return CsvSource.model_validate(values)


@pytest.fixture
def people(tmp_path: Path, bench: Workbench) -> Callable[..., Outcome]:
    """`people(rows, source=..., **records)`: the outcome of converting these rows."""

    def convert(rows: list[dict[str, object]], settings: dict[str, Any] | None = None, **config: Any) -> Outcome:
        options = RecordsConfig.model_validate({"splits": SPLITS, "shards": 1, **config})
        outcome = conversion.build(bench, source(tmp_path, rows, **(settings or {})), options)
        counts = outcome.counts
        assert counts["read"] == counts["examples"] + counts["quarantined"] + counts["filtered"] == len(rows)
        assert counts["examples"] == sum(counts[split] for split in SPLITS)
        return outcome

    return convert


ROWS = [row(number) for number in range(120)]


def test_roles_are_features_with_a_role_and_splits_are_none(
    people: Callable, bench: Workbench, publish: Callable
) -> None:
    outcome = people(ROWS)
    roles = {name: feature["role"] for name, feature in outcome.features.items()}
    assert roles == {
        "key": "key", "age": "input", "city": "input", "when": "time", "kind": "label", "worth": "weight"
    }  # fmt: skip
    reader = RecordsReader(publish(Records, bench, outcome).path)
    [table] = reader.tables("train")
    rows = {each["key"]: each for each in table.to_pylist()}
    assert {key: each["age"] for key, each in rows.items()} == {key: 20 + int(key[1:]) * 0.5 for key in rows}
    assert {each["city"] for each in rows.values()} == {"Rome", "Oslo", ""}
    assert all(each["kind"] == int(key[1:]) % 2 for key, each in rows.items())
    assert outcome.features["kind"]["classes"] == ["a", "b"]
    part = next(iter(reader.tables("train", ["age"], rows=7, start=3, stop=10)))
    assert part.column_names == ["age"]
    np.testing.assert_array_equal(part["age"].to_numpy(), table["age"].to_numpy()[3:10])


def splits_of(outcome: Outcome, bench: Workbench, publish: Callable) -> dict[str, str]:
    reader = RecordsReader(publish(Records, bench, outcome).path)
    return {reader.key(split, number): split for split, count in reader.counts.items() for number in range(count)}


def test_a_columns_splits_are_kept(people: Callable, bench: Workbench, publish: Callable) -> None:
    splits = splits_of(people(ROWS, splits="official"), bench, publish)
    expected = ["train", "train", "validation", "test"]
    assert splits == {key: expected[int(key[1:]) % 4] for key in splits} and len(splits) == 120


def test_official_splits_by_other_names_and_unknown_ones(people: Callable, bench: Workbench, publish: Callable) -> None:
    folds = [row(number, fold=f"f{number % 5}") for number in range(100)]
    official = {"train": ["f0", "f1", "f2"], "validation": ["f3"], "test": ["f4"]}
    splits = splits_of(people(folds, splits="official", official=official), bench, publish)
    assert {int(key[1:]) % 5 for key, split in splits.items() if split == "train"} == {0, 1, 2}
    with pytest.raises(Failed, match=r"fold|split 'f4' is none of f0, f1, f2, f3"):
        people(folds, splits="official", official={"train": ["f0", "f1"], "validation": ["f2"], "test": ["f3"]})


def test_time_splits_without_mixing(people: Callable, bench: Workbench, publish: Callable) -> None:
    times = {"validation": "2024-09-01", "test": "2024-11-01"}
    splits = splits_of(people(ROWS, splits="time", split_times=times), bench, publish)
    months = {key: int(key[1:]) % 12 + 1 for key in splits}
    assert {months[key] for key, split in splits.items() if split == "train"} == set(range(1, 9))
    assert {months[key] for key, split in splits.items() if split == "validation"} == {9, 10}
    assert {months[key] for key, split in splits.items() if split == "test"} == {11, 12}


def test_settings_of_splits_that_would_be_ignored_are_refused() -> None:
    for settings, field in [
        ({"split_times": {"test": "2024-01-01"}}, "split_times"),
        ({"official": {"train": ["a"]}}, "official"),
        ({"splits": "time"}, "split_times"),
        ({"splits": "time", "split_times": {"validation": "2024-02-01", "test": "2024-01-01"}}, "split_times"),
        ({"splits": "time", "split_times": {"validation": "soon", "test": "2024-01-01"}}, "split_times"),
    ]:
        with pytest.raises(ValueError) as error:
            RecordsConfig.model_validate(settings)
        conflict = error.value.errors()[0]["ctx"]["error"]  # type: ignore[attr-defined]
        assert isinstance(conflict, Conflict) and conflict.field == field


def test_splits_that_the_source_does_not_have_are_refused(people: Callable) -> None:
    with pytest.raises(Refused, match="source has no splits of its own"):
        people(ROWS, {"split": None, "columns": {**COLUMNS, "fold": "ignore"}}, splits="official")
    with pytest.raises(Refused, match=r"needs the column source.time"):
        times = {"validation": "2024-09-01", "test": "2024-11-01"}
        people(ROWS, {"time": None}, splits="time", split_times=times)


def test_a_filter_keeps_rows_and_counts_the_others(people: Callable, bench: Workbench, publish: Callable) -> None:
    outcome = people(ROWS, filter="age < 60 AND (city = 'Rome' OR city IS NULL)")
    kept = splits_of(outcome, bench, publish)
    assert {int(key[1:]) for key in kept} == {number for number in range(80) if number % 3 != 1}
    assert outcome.counts["filtered"] == 120 - len(kept)
    unknown = people([*ROWS, row(300, age="")], filter="age < 60")  # neither true nor false
    assert unknown.counts["examples"] == 80 and unknown.counts["filtered"] == 41
    for condition, says in (("agee < 3", "agee"), ("age", "must be true or false"), ("age <", "must be an SQL")):
        with pytest.raises(Refused, match=says) as refused:
            people(ROWS, filter=condition)
        assert refused.value.field == "records.filter"


RULES = """
columns:
  age: {min: 21, max: 70, nullable: false}
  city: {values: [Rome, Oslo]}
  when: {min: "2024-01-01", max: "2024-12-01"}
"""


def test_what_breaks_a_rule_is_quarantined_with_its_reason(people: Callable, bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    odd = [row(200, city="Bern"), row(201, age="", city="Rome"), row(202, age="old"), row(203, when="2025-01-01")]
    rows = [*ROWS[2:100], *odd]
    outcome = people(rows, schema_file=str(tmp_path / "rules.yaml"), bad_budget=5)
    reasons = {key: reason for key, reason, _ in outcome.statistics["quarantined"]}
    assert reasons["p200"] == "age: 120; must be at most 70"
    assert reasons["p201"] == "age: missing"
    assert reasons["p202"] == "age: 'old' is not a number"
    assert len(reasons) == 4 and outcome.counts["quarantined"] == 4
    [file] = bench.staging.pieces("quarantine")
    lines = [json.loads(line) for line in (bench.staging.root / file).read_text().splitlines()]
    assert {line["key"]: line["place"] for line in lines}["p202"] == "people.csv line 102"
    assert next(line for line in lines if line["key"] == "p202")["values"]["age"] == "old"
    with pytest.raises(Failed, match="4 bad: people.csv line 100"):
        people(rows, schema_file=str(tmp_path / "rules.yaml"), bad_budget=0.03)


def test_a_file_of_rules_that_does_not_fit_is_refused(people: Callable, tmp_path: Path) -> None:
    for text, says in [
        ("columns: {weight: {min: 1}}", "no such column"),
        ("columns: {age: {least: 1}}", "the rules of a column are nullable, min, max"),
        ("columns: {age: {matches: a}}", "does not fit a column"),
        ("columns: {city: {max: 3}}", "does not fit a column"),
        ("columns: {city: {matches: '('}}", "must be a regular expression"),
        ("columns: [", "must be a YAML file"),
    ]:
        (tmp_path / "rules.yaml").write_text(text)
        with pytest.raises(Refused, match=says):
            people(ROWS, schema_file=str(tmp_path / "rules.yaml"))


def test_named_classes_keep_their_numbers_and_others_are_bad_or_in_a_bucket(people: Callable) -> None:
    rows = [*ROWS, row(300, kind="c"), row(301, kind="")]
    assert people(ROWS, {"classes": ["b", "a", "z"]}).features["kind"]["classes"] == ["b", "a", "z"]
    outcome = people(rows, {"classes": ["b", "a"]}, bad_budget=2)
    reasons = {key: reason for key, reason, _ in outcome.statistics["quarantined"]}
    assert reasons == {"p300": "kind: 'c' is none of source.classes", "p301": "kind: missing"}
    bucket = people(rows, {"classes": ["b", "a"], "unknown_class": "bucket"}, bad_budget=1)
    assert bucket.features["kind"]["classes"] == ["b", "a", OTHER]
    assert [(key, reason) for key, reason, _ in bucket.statistics["quarantined"]] == [("p301", "kind: missing")]


def test_a_key_that_is_missing_or_occurs_twice(people: Callable) -> None:
    with pytest.raises(Failed, match="id: missing"):
        people([*ROWS, row(300, id="")])
    with pytest.raises(Failed, match="p007; occurs twice"):
        people([*ROWS, row(300, id="p007")])


def test_weights_and_targets_must_be_there(people: Callable) -> None:
    rows = [*ROWS, row(300, worth=-1), row(301, worth=""), row(302, worth=0), row(303, worth=1e-9)]
    outcome = people(rows, bad_budget=0.1)
    reasons = {key: reason for key, reason, _ in outcome.statistics["quarantined"]}
    wrong = {"p300": "worth: -1 is not above 0", "p302": "worth: 0 is not above 0"}
    assert reasons == {**wrong, "p301": "worth: missing"}


def test_copies_are_found_by_the_inputs_alone(people: Callable) -> None:
    copies = [row(number, id=f"q{number}", kind="a", worth=9) for number in range(0, 120, 10)]
    outcome = people([*ROWS, *copies])
    assert outcome.statistics["duplicates"]["contents"] == 12
    assert outcome.statistics["duplicates"]["across_splits"] == 0
    dropped = people([*ROWS, *copies], duplicates="drop")
    assert dropped.counts["examples"] == 120 and dropped.counts["filtered"] == dropped.counts["duplicates"] == 12


def test_the_order_of_columns_and_splits_decides_nothing(
    people: Callable, bench: Workbench, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    people(ROWS)
    turned = {"columns": dict(reversed(COLUMNS.items()))}
    splits = {"splits": dict(reversed(SPLITS.items())), "shards": 1}
    other = benches("other")
    conversion.build(other, source(tmp_path, ROWS, **turned), RecordsConfig.model_validate(splits))
    one, two = (bench.staging.root, other.staging.root)
    files = sorted(path.relative_to(one) for path in one.rglob("*.tfrecord*"))
    assert files and all((one / path).read_bytes() == (two / path).read_bytes() for path in files)
