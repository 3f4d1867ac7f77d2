"""Pages and commands of parts that are not alike: splits, classes, seeds and slices; each flow, file and state."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flows import references
from flows.commands import backfill
from infra import automations, backup
from tasks.errors import Failed
from tasks.evaluation.paired import aligned
from tasks.runs.home import Home
from tasks.training.initial import ChampionInit
from tasks.view import charts, columns, report, results
from tasks.view import sections as data
from tasks.view.comparison import Comparison, _environment
from tasks.view.facts import Facts
from tests.support import stand_ins
from tests.support.stand_ins import contributions


def test_classes_are_counted_in_every_split_and_shown_by_the_most_of_their_split() -> None:
    columns = [{"classes": {"a": 40, "b": 10}}, {"classes": {"b": 6, "c": 3}}, {}]
    rows, left_out = data._balance(columns)
    assert dict(rows) == {
        "a": [(40, 100.0), (0, 0.0), (0, 0.0)],
        "b": [(10, 25.0), (6, 100.0), (0, 0.0)],
        "c": [(0, 0.0), (3, 50.0), (0, 0.0)],
    }
    assert left_out == 0


def test_of_many_classes_the_most_frequent_of_all_splits_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CLASSES", 2)
    rows, left_out = data._balance([{"classes": {"a": 3, "b": 4, "c": 5}}, {"classes": {"a": 9, "b": 1, "c": 1}}])
    assert [name for name, _ in rows] == ["a", "c"] and left_out == 1


def test_examples_that_are_left_out_are_listed_by_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "LISTED", 2)
    rows = [(str(number), "why", "where") for number in range(5)]
    found = data._left_out({"skipped": rows[:1], "quarantined": rows})
    assert [(what.split()[0], count, len(shown)) for what, count, shown in found] == [
        ("skipped", 1, 1),
        ("quarantined", 5, 2),
    ]


def test_missing_values_are_a_share_of_all_rows() -> None:
    assert columns.missing({"missing": 5, "count": 15, "mean": 1.0}) == "25.0%", "of numbers those that are there count"
    assert columns.missing({"missing": 5, "count": 20}) == "25.0%" and columns.missing({"missing": 0, "count": 9}) == ""


@pytest.mark.parametrize(
    ("handling", "across", "harmful"),
    [("report", 3, True), ("report", 0, False), ("group", 3, False), ("drop", 3, False)],
)
def test_near_duplicates_are_harmful_where_they_stay_in_several_splits(
    handling: str, across: int, harmful: bool
) -> None:
    found = data.Duplicates(handling, across_splits=across)
    assert found.harmful is harmful and found.fate


def facts_of(test: dict[str, Any], **more: Any) -> Any:
    return stand_ins.facts(report={"splits": {"test": test, **more}})


def test_slices_are_placed_by_the_ends_of_all_intervals() -> None:
    rows = [
        {"slice": "a", "value": 0.5, "low": 0.25, "high": 0.75, "examples": 9, "units": 9},
        {"slice": "b", "value": 1.0, "low": 0.5, "high": 2.25, "examples": 50, "divided": 3, "units": 50},
        {"slice": "c", "value": None, "low": None, "high": None, "examples": 3, "why": "fewer than 5"},
    ]
    test = facts_of({"slices": rows}).test
    made = {row.title: place for row, place in zip(test.scored_slices, data.places(test), strict=True)}
    assert made == {"a": (12.5, 0.0, 25.0), "b (3 more in part)": (37.5, 12.5, 87.5)}
    assert [row.of_few for row in test.scored_slices] == [True, False]
    assert test.slices_without_score == "c (3, fewer than 5)"
    alike = [{"slice": name, "value": 1.0, "low": 1.0, "high": 1.0, "examples": 9, "units": 9} for name in "ab"]
    assert data.places(facts_of({"slices": alike}).test) == [(0.0, 0.0, 0.0)] * 2, "where a model is right everywhere"


def test_each_split_of_few_examples_is_named() -> None:
    for validation, test, expected in ((19, 20, {"validation": 19}), (20, 19, {"test": 19}), (20, 20, {})):
        facts = facts_of({"examples": test}, validation={"examples": validation})
        assert data.few(facts) == expected
    assert data.few(stand_ins.facts()) == {}


def test_thresholds_are_shown_with_each_measure_of_their_decision() -> None:
    def measures(first: float) -> dict[str, Any]:
        values = {name: first + number / 100 for number, name in enumerate(report.MEASURES)}
        return {name: {"value": value, "low": value - 0.01, "high": value + 0.02} for name, value in values.items()}

    rows = [
        {
            "decision": name,
            "threshold": first,
            "at_threshold": measures(first),
            "at_half": {each: row["value"] / 2 for each, row in measures(first).items()},
        }
        for name, first in (("a", 0.25), ("b", 0.5))
    ]
    first, second = facts_of({"thresholds": rows}).test.thresholds
    at = first.at_threshold["precision"]
    assert (at.value, at.between, first.at_half["precision"]) == (0.25, "0.2400 to 0.2700", 0.125)
    assert second.at_threshold["false_positive_rate"].between == "0.5400 to 0.5700" and len(first.at_threshold) == 6


def test_examples_are_named_by_their_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = np.array([1.0, 0, 1, 0, 1, 0]), np.array([1.0, 1, 0, 0, 0, 1])
    monkeypatch.setattr(results, "_keys", lambda records, split: [f"k{number}" for number in range(6)])
    facts: Any = SimpleNamespace(metric="accuracy", one=lambda kind: kind)
    sides: Any = [contributions(accuracy=each[:, None]) for each in (old, new)]
    made = results.examples(facts, tuple(sides))
    assert made is not None
    assert (made.fixed, made.broken, made.both_right, made.both_wrong) == (["k1", "k5"], ["k2", "k4"], 1, 1)


def test_what_two_runs_have_in_common_is_compared_in_the_order_of_the_newer_one() -> None:
    first = contributions(accuracy=np.arange(5.0)[:, None], identities=[10, 20, 30, 40, 50])
    second = contributions(accuracy=np.arange(6.0)[:, None], identities=[60, 50, 40, 99, 20, 10])
    before, after = aligned(first, second)
    assert after.places.tolist() == [1, 2, 4, 5] and before.places.tolist() == [4, 3, 1, 0]
    assert before.values["accuracy"].ravel().tolist() == [4, 3, 1, 0]
    assert after.among(np.array([5], np.uint64)).tolist() == [False, False, False, True], "of all examples the last"
    half = replace(second, extents=np.array([1, 1, 0.5, 1, 1, 1]))
    assert aligned(first, half)[1].places.tolist() == [1, 4, 5], "what is scored in part is another example"


def test_runs_differ_in_packages_hosts_and_layouts_of_any_result() -> None:
    def made(name: str, **by: Any) -> Any:
        produced = {"packages": {"numpy": "1"}, "host": "one", "layout": {"threads": 2}, "git_commit": "a" * 40, **by}
        manifest = {"produced_by": produced, "inputs": {"code": {"version": len(name)}}}
        return SimpleNamespace(kind="model", name=name, manifest=manifest)

    def facts(*artifacts: Any) -> Any:
        rows = [
            SimpleNamespace(digest=str(number), kind="model", stage="train", name=each.name)
            for number, each in enumerate(artifacts)
        ]
        return SimpleNamespace(results=rows, named={str(number): each for number, each in enumerate(artifacts)})

    first = facts(made("a"), made("b", host="two", layout={"threads": 4}))
    assert _environment(first) == {"numpy": "1", "host": "one, two", "threads": "2, 4"}
    comparison: Any = Comparison.__new__(Comparison)
    comparison.before = facts(made("a"), made("b"), made("only"))
    comparison.after = facts(made("a", git_commit="b" * 40), made("b", git_commit="b" * 40))
    [moved] = comparison.code
    assert moved.where == "commit of train.a, train.b" and (moved.before, moved.after) == ("a" * 12, "b" * 12)
    renewed = made("b")
    renewed.manifest["inputs"]["code"]["version"] = 2
    changed: Any = Comparison.__new__(Comparison)
    changed.before, changed.after = facts(made("a"), made("b")), facts(made("a"), renewed)
    [version] = changed.code
    assert (version.where, version.before, version.after) == ("version of train.b", 1, 2)


@pytest.mark.parametrize("chosen", [1, 2])
def test_curves_of_seeds_are_those_of_validation_with_the_chosen_one_on_top(
    chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(charts, "draw", lambda title, lines, log: drawn.setdefault(title, lines) and title)
    points = {
        f"seed_{number}": {
            "train/loss": [(1, 1.0), (2, 0.5)],
            "validation/loss": [(1, float(number)), (2, 0.5)][: 1 if number == 3 else 2],
        }
        for number in (1, 2, 3)
    }
    charts.draw_seeds(points, f"seed_{chosen}")
    [(title, lines)] = [(title, lines) for title, lines in drawn.items() if "validation" in title]
    expected = [("", 3.0 - chosen), (f"seed {chosen}", float(chosen))]
    assert [(line.label, line.points[0][1]) for line in lines] == expected, title


@pytest.mark.parametrize(
    ("supports", "said"),
    [
        ([50, 50], False),
        ([59, 41], False),
        ([61, 39], True),
        ([30, 30, 30, 6], True),
        ([30, 30, 30, 7], False),
        ([30, 30, 0], False),
    ],
)
def test_macro_f1_is_said_where_classes_are_not_balanced(supports: list[int], said: bool) -> None:
    classes = [{"class": str(number), "support": support} for number, support in enumerate(supports)]
    facts = facts_of({"figures": {"macro_f1": 0.5}, "classes": classes})
    assert (Facts.balance.__get__(facts) == "macro F1 0.5000") is said


# Commands and services.


@pytest.mark.parametrize("flow", ["dataset", "training", "pipeline", "release", "tuning"])
def test_each_flow_chooses_the_models_that_it_begins_with_or_learns_from(
    flow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def model_of(home: Home, reference: str, field: str, otherwise: str) -> str:
        asked.append((reference, field))
        return f"digest of {reference}"

    class Section:
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

        def model_copy(self, update: dict[str, Any]) -> Any:
            return Section(**{**self.__dict__, **update})

    monkeypatch.setattr(references, "model_of", model_of)
    compress = SimpleNamespace(taught_by=lambda choose: choose("teacher@champion"))
    config: Any = Section(name="digits", compress=compress, train=Section(init=ChampionInit()))
    made: Any = references.pinned(flow, Home(Path()), config)
    begins, learns = flow not in ("dataset", "release"), flow not in ("dataset", "training")
    expected = [("teacher@champion", "compress.methods")] * learns + [("digits@champion", "train.init")] * begins
    assert asked == expected
    if begins:
        assert made.train.init.model == "digest of digits@champion"
    if learns:
        assert made.compress == "digest of teacher@champion"


@pytest.mark.parametrize(("every", "hours"), [("30m", 0.5), ("12h", 12), ("2d", 48)])
def test_spans_follow_one_another_from_the_oldest(every: str, hours: float) -> None:
    found = backfill.spans("2026-01-01T06:00", "2026-01-05T06:00", every)
    lengths = {(end - begin).total_seconds() / 3600 for begin, end in found}
    assert lengths == {hours} and len(found) == 96 / hours
    assert found[0][0] == datetime(2026, 1, 1, 6, tzinfo=UTC) and found[-1][1] == datetime(2026, 1, 5, 6, tzinfo=UTC)
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert len({backfill.span_name(begin) for begin, _ in found}) == len(found)


@pytest.mark.parametrize(
    "state",
    ["Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended", "Rejected", "Awaiting approval", "Stopped"],
)
def test_a_run_that_came_to_any_end_is_not_dead(state: str) -> None:
    made = automations.dead_runs("receiver", 99)
    assert f"prefect.flow-run.{state}" in made["trigger"]["expect"] and automations.LEFT in made["trigger"]["expect"]
    assert made["trigger"]["after"] == [automations.HEARTBEAT] and made["trigger"]["within"] == 99
    assert made["trigger"]["expect"][0] == automations.HEARTBEAT and made["trigger"]["posture"] == "Proactive"
    assert [action["type"] for action in made["actions"]] == ["change-flow-run-state", "send-notification"]
    assert len(automations.dead_runs(None)["actions"]) == 1


def test_paths_are_rewritten_in_every_text_of_every_table(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    with sqlite3.connect(file) as made:
        made.execute("CREATE TABLE first (id INTEGER, one TEXT, two TEXT)")
        made.execute('CREATE TABLE "second table" (uri TEXT, content BLOB)')
        made.execute(
            "INSERT INTO first VALUES (1, '/old home/a', 'x'), (2, '/older/b', 'see /old home/c, /old home/d')"
        )
        made.execute('INSERT INTO "second table" VALUES (?, ?)', ("file:///old%20home/e", b"/old home/f"))
    made.close()
    backup.rewrite_database(file, list(backup.spellings("/old home", "/new")))
    with sqlite3.connect(file) as read:
        assert read.execute("SELECT one, two FROM first").fetchall() == [
            ("/new/a", "x"),
            ("/older/b", "see /new/c, /new/d"),
        ]
        assert read.execute('SELECT uri, content FROM "second table"').fetchall() == [("file:///new/e", b"/old home/f")]
    read.close()


def test_the_newest_backups_of_a_home_stay_and_the_newest_with_a_registry(tmp_path: Path) -> None:
    def made(name: str, home: str, *files: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(json.dumps({"home": home, "files": []}))
        for file in files:
            (tmp_path / name / file).write_text("")

    made("20260101-000000", "/one", "mlflow.db")
    made("20260102-000000", "/one", backup.DUMP)
    made("20260103-000000", "/two")
    for day in range(4, 8):
        made(f"2026010{day}-000000", "/one")
    backup.rotate_out(Path("/one"), tmp_path, 3)
    left = sorted(path.name[6:8] for path in tmp_path.iterdir())
    assert left == ["02", "03", "05", "06", "07"]
    assert backup.find_backup(tmp_path).name == "20260107-000000"


@pytest.mark.parametrize("name", ["lock", ".lock", "a.json.12.partial"])
def test_what_is_only_there_for_a_while_is_not_copied(name: str, tmp_path: Path) -> None:
    (tmp_path / "from/deep").mkdir(parents=True)
    for each in (name, "kept", "block"):
        (tmp_path / "from/deep" / each).write_text(each)
    backup.copy(tmp_path / "from", tmp_path / "to")
    assert sorted(path.name for path in (tmp_path / "to/deep").iterdir()) == ["block", "kept"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_file_of_a_backup_is_verified(number: int, tmp_path: Path) -> None:
    names = ["a", "b/c", "d"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"content of {name}")
    rows = [{"path": name, **backup.sums(tmp_path / name)} for name in names]
    (tmp_path / "manifest.json").write_text(json.dumps({"files": rows}))
    assert len(backup.verify(tmp_path)["files"]) == 3
    (tmp_path / names[number]).write_text(f"CONTENT of {names[number]}")
    with pytest.raises(Failed, match=f"{names[number]}: its content has changed"):
        backup.verify(tmp_path)
    (tmp_path / names[number]).unlink()
    with pytest.raises(Failed, match=f"{names[number]}: missing"):
        backup.verify(tmp_path)
