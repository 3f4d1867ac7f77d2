"""A page as a person reads it: the worst examples by name and in words, times as times, and where everything is."""

from __future__ import annotations

import base64
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tasks.config.compose import validate
from tasks.reader.values import NO_TIME
from tasks.snapshots.transforms import own_array
from tasks.sources.features import Feature
from tasks.view import attempts, columns, confusion, run_page, settings, worst
from tasks.view.attempts import Attempt
from tasks.view.words import columns_of, describe
from tests.support.stand_ins import facts


def microseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


# Worst examples -------------------------------------------------------------------------------------------------


FEATURES = {
    "Größe (cm)": Feature("number", "float32"),
    "plan": Feature("category", "string"),
    "joined": Feature("time", "int64"),
    "Ø notes": Feature("text", "string"),
    "churned": Feature("label", "int64", role="label", classes=("no", "yes")),
    "key": Feature("key", "string", role="key"),
}
ROW = {
    "Größe (cm)": np.array([171.5], np.float32),
    "plan": [b"Prepaid 30"],
    "joined": np.array([microseconds("2024-08-25 15:27:30")]),
    "Ø notes": ["größer\nals ".encode() + b"x" * 400],
    "churned": np.array([1]),
    "key": [b"C1"],
}


def shown(monkeypatch: pytest.MonkeyPatch, test: dict[str, Any], features: dict[str, Feature] = FEATURES) -> Any:
    """The worst examples of a report whose records have this row alone."""
    reader = SimpleNamespace(features=features, example=lambda *place: {("test", 5): ROW}[place])
    monkeypatch.setattr(worst, "RecordsReader", lambda path: reader)
    snapshot = SimpleNamespace(pieces=lambda *_: np.array([[5, 0, 1, 0]]))
    monkeypatch.setattr(worst, "open_snapshot", lambda path: snapshot)
    profile = {"columns": {"plan": {"association": 0.4}, "joined": {"association": 0.1}}}
    artifact = SimpleNamespace(path=None, manifest={"statistics": {"profile": profile}})
    return worst.worst(facts(report={"splits": {"test": test}}, one=lambda kind: artifact))


def test_a_wrong_row_of_a_table_has_its_columns_as_the_source_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"row": 3, "key": "C1", "label": "yes", "predicted": "no", "confidence": 0.987}]
    found = shown(monkeypatch, {"most_wrong": rows})
    assert found.titles == ["label", "predicted", "#confidence"] and not found.pictured
    assert found.columns == ["plan", "joined", "Größe (cm)", "Ø notes"], (
        "the closest association first, no label or key"
    )
    [example] = found.examples
    assert (example.key, example.answers) == ("C1", ["yes", "no", "99%"])
    plan, joined, size, notes = example.cells
    assert (plan, joined, size) == ("Prepaid 30", "2024-08-25 15:27:30", "171.5")
    assert notes.startswith("größer als xxx") and notes.endswith("…") and len(notes) == worst.CHARACTERS + 1


def test_a_regression_shows_each_target_beside_its_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"row": 3, "key": "C1", "true": [1.25, 1e6], "predicted": [2.5, 123456.7]}]
    found = shown(monkeypatch, {"targets": ["rent", "price"], "furthest": rows})
    assert found.titles == ["#rent", "#predicted", "#price", "#predicted"]
    assert found.examples[0].answers == ["1.25", "2.5", "1e+06", "1.2346e+05"] and found.examples[0].cells


def test_a_tagged_text_shows_how_many_of_its_tokens_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shown(monkeypatch, {"sequences": [{"row": 3, "key": "C1", "tokens": 1200, "wrong": 7}]})
    assert found.titles == ["#tokens that are wrong", "#tokens"] and found.examples[0].answers == ["7", "1,200"]


def test_of_many_columns_the_closest_are_shown_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    features = {f"c{number:02d}": Feature("number", "float32") for number in range(worst.COLUMNS + 3)}
    for name in features:
        monkeypatch.setitem(ROW, name, np.array([1.0], np.float32))
    row = {"row": 0, "key": "k", "label": "a", "predicted": "b", "confidence": 1.0}
    found = shown(monkeypatch, {"most_wrong": [row]}, features)
    assert len(found.columns) == len(found.examples[0].cells) == worst.COLUMNS and found.left_out == 3
    assert worst.worst(facts(report={"splits": {"test": {}}})) is None


@pytest.mark.parametrize(("size", "drawn"), [((8, 8), (96, 96)), ((200, 100), (96, 48)), ((60, 40), (60, 40))])
def test_a_thumbnail_keeps_the_shape_and_enlarges_by_a_whole_number(
    size: tuple[int, int], drawn: tuple[int, int]
) -> None:
    Image.new("L", size).save(file := io.BytesIO(), "PNG")
    made = Image.open(io.BytesIO(base64.b64decode(worst.thumbnail(file.getvalue()).partition(",")[2])))
    assert made.size == drawn and worst.thumbnail(b"") == ""


def test_an_array_of_one_column_is_named_as_the_data_names_it(tmp_path: Path) -> None:
    """Its own name is of letters that a file may have, with a hash."""
    array = own_array("本文")
    assert array.isascii() and array != "本文"
    layout = [{"column": "本文", "array": array}, {"column": "Größe", "array": "numbers", "start": 0, "stop": 1}]
    (tmp_path / "transform").mkdir()
    (tmp_path / "transform/transform.json").write_text(json.dumps({"layout": layout}))
    features = {array: {"shape": [128]}, "numbers": {"shape": [1]}, "label": {"shape": []}}
    snapshot: Any = SimpleNamespace(
        kind="snapshot", path=tmp_path, metrics={}, manifest={"features": features, "counts": {"train": 1500}}
    )
    assert describe(snapshot) == "1,500 examples, 本文 128, numbers 1"
    assert columns_of(tmp_path / "images") == {}


# Times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2024-08-25 15:27:30", "2024-08-25 15:27:30"),
        ("2024-08-25 00:00:00", "2024-08-25"),
        ("1900-01-01 00:34:09", "00:34:09"),
        ("1969-12-31 23:59:59.250000", "1969-12-31 23:59:59.25"),
    ],
)
def test_a_time_is_written_as_people_write_it(text: str, said: str) -> None:
    assert columns.moment(microseconds(text)) == said
    assert columns.moment(NO_TIME) == "missing"


def test_a_column_of_times_is_described_by_dates_or_by_its_range() -> None:
    ends = [microseconds(f"{year}-03-01 12:00:00") for year in range(2020, 2027)]
    assert columns.middle({"quantiles": {"train": ends}}, "time") == "2023-03-01 (2022-03-01 to 2024-03-01)"
    rough = [-2.20899e15] * 3 + [-2.20898e15] * 4  # as the profile has them: to six digits
    statistics = {"min": "1900-01-01T00:00:35+00:00", "max": "1900-01-01T01:59:48+00:00"}
    assert columns.middle({"quantiles": {"train": rough}}, "time", statistics) == "00:00:35 to 01:59:48"
    assert columns.middle({"quantiles": {"train": [1, 2, 26, 37, 1048, 5, 9]}}, "text") == "37 characters (26 to 1,048)"


# Confusion ------------------------------------------------------------------------------------------------------


def counts(classes: int) -> list[list[int]]:
    """Each class is right 10 times, and taken for the next one as often as its number says, up to nine times."""
    return [
        [10 if row == column else row % 10 if column == (row + 1) % classes else 0 for column in range(classes)]
        for row in range(classes)
    ]


@pytest.mark.parametrize("classes", [2, 16, 100, 300])
def test_a_confusion_matrix_names_its_classes_and_has_a_cell_for_each_number(classes: int) -> None:
    names = [f"class <{number}>" for number in range(classes)]
    svg, drawn = confusion.draw(counts(classes), names), confusion.drawn(counts(classes))
    assert len(drawn) == min(classes, confusion.MOST_CLASSES) and drawn == sorted(drawn)
    for number in drawn:
        assert svg.count(f"</title>class &lt;{number}&gt;</text>") == 2, "beside its row, and below its column"
    assert ('class="count"' in svg) is (classes <= confusion.NUMBERED)
    sizes = [float(size) for size in re.findall(r"<text x[^>]*font-size: ([\d.]+)px", svg)]
    assert min(sizes) >= 8, "can be read"
    [side] = {float(width) for width in re.findall(r'<rect[^>]*width="([\d.]+)"', svg)}
    assert side + 1 > min(sizes), "names of rows do not touch"


def test_the_most_frequent_confusions_are_listed_with_their_share_of_the_class() -> None:
    names = [f"c{number}" for number in range(12)]
    first, *others = confusion.frequent(counts(12), names)
    assert (first.label, first.predicted, first.examples, first.share) == ("c9", "c10", 9, 9 / 19)
    assert len(others) == confusion.LISTED - 1 and confusion.wrong(counts(12)) == sum(
        number % 10 for number in range(12)
    )
    assert confusion.frequent([[5, 0], [0, 7]], ["a", "b"]) == []


def test_of_too_many_classes_those_that_are_confused_most_are_drawn() -> None:
    matrix = [[1 if row == column else 0 for column in range(200)] for row in range(200)]
    matrix[7][199] = 4
    assert {7, 199} <= set(confusion.drawn(matrix)) and len(confusion.drawn(matrix)) == confusion.MOST_CLASSES


# Config, attempts, contents -------------------------------------------------------------------------------------


def test_what_was_set_is_told_from_the_defaults() -> None:
    flip = [{"kind": "flip"}, {"kind": "noise", "deviation": 2.0}]
    train = {"steps": 5, "batch_size": 32, "optimizer": {"kind": "sgd"}, "early_stopping": {}, "augment": flip}
    config = validate({"name": "x", "source": {"kind": "sklearn", "dataset": "digits"}, "train": train})
    assert settings.chosen(config) == {
        "name": "x",
        "train": {
            "steps": 5,
            "batch_size": 32,
            "augment": [{"kind": "flip"}, {"kind": "noise", "deviation": 2.0}],
            "optimizer": {"kind": "sgd"},
            "early_stopping": {"metric": "primary", "patience": 5, "delta": 0.0},
        },
    }
    assert dict(settings.grouped(settings.chosen(config))) == {
        "run": "name: x",
        "train": settings.as_yaml(settings.chosen(config)["train"]),
    }


def test_seconds_are_of_all_attempts_and_a_killed_one_lived_until_its_last_point() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start.replace(minute=minute).isoformat() for minute in (0, 10, 20)]
    rows = [
        Attempt(1, times[0], "h", seconds={"convert": 4.0}, ended=times[1], status="stopped"),
        Attempt(2, times[1], "h", seconds={"convert": 1.0, "compress b": 3.0}),
        Attempt(3, times[2], "h", seconds={"compress a": 2.0}, ended=times[2], status="completed"),
    ]
    signs = [start.timestamp() + seconds for seconds in (30, 601, 700, 1300)]
    lived = attempts.timed(rows, signs)
    assert [life.took for life in lived] == ["10:00 min", "at least 1:40 min", "0.0 s"]
    assert [life.took for life in attempts.timed(rows[1:2], [])] == ["not known"]
    costs = attempts.costs(rows, ["convert", "compress b", "compress a"])
    assert [(row.name, row.seconds, row.attempts) for row in costs] == [
        ("convert", 5.0, (1, 2)),
        ("compress b", 3.0, (2,)),
        ("compress a", 2.0, (3,)),
    ]
    assert [row.percent for row in costs] == [100.0, 60.0, 40.0]


def test_the_contents_lead_to_each_heading() -> None:
    html = '<h2 id="a">A</h2><h2 id="b-c">B c</h2><p><h2 id="d">D</h2>'
    assert run_page.contents(html).count("<a ") == 3 and '<a href="#b-c">B c</a>' in run_page.contents(html)
    assert run_page.contents('<h2 id="a">A</h2>') == ""
