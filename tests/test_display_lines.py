"""Lines of the terminal: what each says of a stage, a variant, a trial, an example or a report, and where it is cut."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from tasks.compression.judgement import Judgement
from tasks.search.table import FAILED, PRUNED, Table
from tasks.tracking import prefect_page
from tasks.training.seeds import OVER_SEEDS, Choice
from tasks.view import report as reports
from tasks.view import rows, terminal, trainings
from tasks.view.variants import Latency, lines
from tasks.view.variants import row as variant_row
from tasks.view.words import describe_search, describe_trial, describe_variant
from tests.support.stand_ins import bounded, facts, trial, variant


def test_an_ended_trial_is_described_by_what_it_has() -> None:
    table = Table("s", "accuracy", True, [trial(0, 0.5), trial(1, 0.25)])
    assert describe_trial(table.trials[0], table) == "accuracy 0.5000, the best, rate 0.1, 1.0 s"
    assert describe_trial(table.trials[1], table) == "accuracy 0.2500, rate 0.1, 1.0 s"
    assert describe_search(table) == "trial 0 of 2 (2 complete): validation accuracy 0.5000, rate 0.1"
    unscored = Table("s", "accuracy", True, [trial(0, None, state=FAILED), trial(1, None, state=PRUNED)])
    assert describe_search(unscored) == "2 trials (1 pruned, 1 failed)"
    cached = trial(2, 0.125, cached=True, seconds=None)
    assert describe_trial(cached, table) == "accuracy 0.1250, rate 0.1, from the store"
    pruned = trial(3, 0.4, state=PRUNED, steps=7)
    assert describe_trial(pruned, table) == f"accuracy 0.4000, {PRUNED} at step 7, rate 0.1, 1.0 s"
    failed = trial(4, None, state=FAILED, steps=0, seconds=None, reason="no memory")
    assert describe_trial(failed, table) == f"{FAILED}, rate 0.1: no memory"


def cells(made: Any) -> tuple[str, ...]:
    return variant_row(made, Judgement(), "accuracy", Latency()).cells("accuracy")


def test_a_line_of_a_variant_says_its_score_and_its_loss_where_it_was_compressed() -> None:
    metrics = {"v/test/accuracy": 0.9, "v/test/accuracy_loss": 0.0}
    assert cells(variant("v", metrics, methods=["int8"]))[3] == "accuracy 0.9000 (loses 0.0000)"
    assert cells(variant("v", metrics, methods=[]))[3] == "accuracy 0.9000"
    unmeasured = cells(variant("v", {}, methods=["int8"]))
    assert unmeasured[2:5] == ("", "", "")
    assert list(lines(facts(variants=[], metric="accuracy"))) == []
    short, long = variant("a", {}), variant("longer", {})
    long.manifest["statistics"]["bytes"] = 123_456
    assert [each.rstrip() for each in lines(facts(variants=[short, long], metric="accuracy"))] == [
        "a         1.0 kB",
        "longer  123.5 kB",
    ]


def test_a_choice_among_seeds_is_said_with_the_interval_of_each_split() -> None:
    metrics = {
        f"{OVER_SEEDS}/validation/accuracy": 0.9,
        f"{OVER_SEEDS}/validation/accuracy/low": 0.85,
        f"{OVER_SEEDS}/validation/accuracy/high": 0.95,
        f"{OVER_SEEDS}/test/accuracy": 0.8,
    }
    choice: Any = SimpleNamespace(
        metric="accuracy", metrics=metrics, seeds={"seed0": {}, "seed1": {}}, verdict="seed1 was chosen"
    )
    assert trainings.summary(choice) == [
        "mean over 2 seeds, 95 % t interval: validation accuracy 0.9000 (0.8500 to 0.9500), test accuracy 0.8000",
        "seed1 was chosen",
    ]


def test_a_report_is_said_in_lines_of_what_it_has() -> None:
    at = {name: bounded(0.6) for name in ("precision", "recall", "f1")}
    half = dict.fromkeys(at, 0.55)
    before = {"loss": {"value": 0.5}, "calibration_error": {"value": 0.125}}
    after = {"loss": {"value": 0.25}, "calibration_error": {"value": 0.0625}}
    test = {
        "tokens": 1234,
        "cut": 0,
        "without_entities": "2 sentences have no entity",
        "calibration": {"before": before, "after": after},
        "thresholds": [{"decision": "yes", "threshold": 0.25, "at_threshold": at, "at_half": half}],
        "robustness": [
            {"probe": "noise", "value": 0.5, "drop": bounded(0.25)},
            {"probe": "blur", "value": 0.25, "drop": bounded(0.5)},
        ],
    }
    report = {"primary": {"metric": "macro_f1"}, "decision": {"temperature": 2.0}, "splits": {"test": test}}
    of = "0.6000 [0.5000, 0.7000] (at 0.5: 0.5500)"
    expected = [
        ("tokens", "1,234; 2 sentences have no entity"),
        (
            "calibrate",
            "temperature 2, fitted on validation: loss 0.5000, then 0.2500, calibration error 0.1250, then 0.0625",
        ),
        ("threshold", f"yes above 0.25, chosen on validation: precision {of}, recall {of}, f1 {of}"),
        ("probes", "noise: macro f1 0.5000, drop 0.2500 [0.1500, 0.3500]"),
        ("", "blur: macro f1 0.2500, drop 0.5000 [0.4000, 0.6000]"),
    ]
    assert list(reports.lines(reports.read(report))) == expected
    for part in (before, after):
        del part["calibration_error"]
    test |= {"cut": 5}
    del test["without_entities"]
    shorter = list(reports.lines(reports.read(report)))
    assert shorter[0] == ("tokens", "1,234; 5 more were cut, and have no tag")
    assert shorter[1] == ("calibrate", "temperature 2, fitted on validation: loss 0.5000, then 0.2500")
    assert list(reports.lines(reports.read({"primary": {"metric": "rmse"}, "splits": {"test": {}}}))) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((2, 3, 1), np.uint8), ["  x: 2 x 3 x 1 pixels"]),
        (np.zeros((2, 1), np.uint8), ["  x: 0, 0"]),
        (np.array([1.0, np.nan, 1e-7, 123456.0]), ["  x: 1, missing, 1e-07, 1.2346e+05"]),
        (np.arange(12), [f"  x: {', '.join(map(str, range(12)))}"]),
        (np.arange(13), [f"  x: {', '.join(map(str, range(12)))}, …"]),
        ("a\n b", ["  x: a b"]),
        ("", ["  x: missing"]),
        ("y" * 300, [f"  x: {'y' * 300}"]),
        ("y" * 301, [f"  x: {'y' * 300}…"]),
    ],
)
def test_a_value_of_an_example_is_said_in_a_line(value: Any, said: list[str]) -> None:
    assert list(rows._value("x", value, False)) == said


def test_an_image_is_drawn_as_two_rows_of_pixels_in_each_line() -> None:
    pixels = np.array([[[0], [255]], [[7], [8]]], np.uint8)
    _, line = rows._value("x", pixels, True)
    cells = ("0;0;0;48;2;7;7;7", "255;255;255;48;2;8;8;8")
    assert line == "    " + "".join(f"\x1b[38;2;{each}m▀" for each in cells) + "\x1b[0m"
    assert len(list(rows._value("x", np.zeros((64, 64, 3), np.uint8), True))) == 1 + 16, "32 pixels wide"


def test_models_of_seeds_are_rows_with_the_metrics_that_decide_first() -> None:
    metrics = {
        name: {"validation/accuracy": score, "validation/loss": 1.0, "test/accuracy": 0.5, "test/loss": 2.0}
        for name, score in (("seed_0", 0.75), ("seed_1", 0.5), ("average", 0.25))
    }
    runs = {name: {"seed": 2**60, "steps": 9, "metrics": metrics[name]} for name in ("seed_0", "seed_1")}
    choice = Choice("accuracy", "seed_0", "average", runs, metrics["average"], {})
    rows = prefect_page.seeds(choice)
    assert [(row["model"], row["chosen"], row["seed"], row["steps"]) for row in rows] == [
        ("seed_0", "yes", str(2**60), 9),
        ("seed_1", "", str(2**60), 9),
        ("average", "", "", ""),
    ]
    columns = ["validation/accuracy", "validation/loss", "test/accuracy", "test/loss"]
    assert all(list(row)[4:] == columns for row in rows) and rows[1]["validation/accuracy"] == 0.5
    alone = Choice("accuracy", "seed_0", "best", runs, None, {})
    assert [row["model"] for row in prefect_page.seeds(alone)] == ["seed_0", "seed_1"]


def console(monkeypatch: pytest.MonkeyPatch, live: bool, width: int = 100) -> io.StringIO:
    """What the terminal shows, without colours."""
    shown = io.StringIO()
    monkeypatch.setattr(terminal, "terminal", Console(file=shown, width=width, force_terminal=live, no_color=True))
    monkeypatch.setattr(terminal, "is_live", lambda: live)
    return shown


@pytest.mark.parametrize(
    ("live", "cached", "mark"), [(False, True, "="), (False, False, "+"), (True, True, "●"), (True, False, "✓")]
)
def test_a_finished_stage_has_a_mark_by_where_its_result_came_from(
    live: bool, cached: bool, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = console(monkeypatch, live)
    terminal.Stage("train", "model", None).finish("9 steps", cached, 95.0)
    plain = re.sub("\x1b\\[[0-9;]*m", "", shown.getvalue())
    assert plain.split() == [mark, "train", "1:35", "min", "9", "steps"]


def test_a_stage_says_how_long_it_has_worked_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, clock = console(monkeypatch, False), iter([100.0, 130.5, 190.0])
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    stage = terminal.Stage("train", "model", None)
    stage.beat()
    stage.progress(1234, 5678, "steps", {"step_ms": 2.0})
    stage.beat()
    first, second = shown.getvalue().splitlines()
    assert first.split() == ["…", "train", "30.5", "s"]
    assert second.split("  ")[-1] == "steps 1,234/5,678 · 2.0 ms/step" and "1:30 min" in second


@pytest.mark.parametrize(
    ("width", "figures"),
    [(200, "steps 5/9 · 1.0 s left · 2.0 ms/step"), (60, "steps 5/9 · 1.0 s left"), (20, "steps 5/9")],
)
def test_the_last_figures_are_left_out_where_a_terminal_is_narrow(
    width: int, figures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    console(monkeypatch, True, width)
    bar = Progress(console=terminal.terminal)
    stage = terminal.Stage("train", "model", bar)
    stage.progress(5, 9, "steps", {"step_ms": 2.0, "seconds_left": 1.0})
    [task] = bar.tasks
    assert (task.completed, task.total, task.fields["figures"]) == (5, 9, figures)


@pytest.mark.parametrize(("ratio", "said"), [(None, ""), (1.0, ""), (0.25, " (0.25 of float)")])
def test_a_variant_is_described_by_its_size_and_score(ratio: float | None, said: str) -> None:
    metrics = {"v/test/rmse": 0.5} | ({} if ratio is None else {"v/size_ratio": ratio})
    made = describe_variant("v", metrics, {"statistics": {"bytes": 1500}})
    assert made == f"v: 1.5 kB{said}, rmse 0.5000"
