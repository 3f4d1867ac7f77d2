"""What a page draws and says: the order of trials, which runs differ by more than noise, passages, numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.compression.judgement import FrontEntry, Judgement, QualityLoss, SliceLoss
from tasks.search.space import FloatRange
from tasks.search.table import COMPLETE, FAILED, PRUNED, Table, Trial
from tasks.view import change, charts, examples, figure, kilobytes, results, seconds, some, trainings, words
from tasks.view.comparison import Comparison
from tasks.view.results import Row
from tasks.view.terminal import figures_in_words
from tasks.view.variants import Latency, _took, losses_by_slice
from tasks.view.variants import row as variant_row
from tests.support.stand_ins import contributions

TRIAL = Trial(0, COMPLETE, {"rate": 0.1}, 0.5, 10, 1.0, None, False, None)


def table(*rows: tuple[str, float | None], higher: bool = True) -> Table:
    made = [replace(TRIAL, number=number, state=state, value=value) for number, (state, value) in enumerate(rows)]
    return Table("s", "accuracy", higher, made)


@pytest.mark.parametrize(("higher", "order"), [(True, [3, 0, 4, 1, 2]), (False, [0, 4, 3, 1, 2])])
def test_trials_are_ranked_by_what_is_better_and_those_without_a_score_come_last(
    higher: bool, order: list[int]
) -> None:
    made = table((COMPLETE, 0.5), (PRUNED, 0.99), (FAILED, None), (COMPLETE, 0.7), (COMPLETE, 0.5), higher=higher)
    assert [trial.number for trial in trainings.by_rank(made)] == order
    assert made.best is not None and made.best.number == order[0]


def test_the_best_so_far_never_becomes_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def draw(title: str, lines: list[Any], log: bool) -> str:
        drawn[:] = lines
        return ""

    monkeypatch.setattr(charts, "draw", draw)
    for higher, best in ((True, [0.5, 0.7, 0.7]), (False, [0.5, 0.5, 0.4])):
        made = table((COMPLETE, 0.5), (COMPLETE, 0.7), (COMPLETE, 0.4), higher=higher)
        charts.history(made, made.trials)
        assert [value for _, value in drawn[1].points] == best and drawn[1].points[0][0] == 1
    svg = charts.parallel(made, trainings.by_rank(made), {"rate": FloatRange(low=0.01, high=1.0, log=True)})
    assert svg.count("<polyline") == 3 and svg.rindex('class="curve c1"') > svg.rindex('class="curve c0"'), "on top"


def test_curves_have_the_finite_points_of_steps_in_their_order(tmp_path: Path) -> None:
    journal = tmp_path / "metrics.jsonl"
    rows = [(20, 0.5), (0, 9.0), (10, 0.7), (30, "nan"), (40, "inf")]
    lines = [json.dumps({"step": step, "time": 1.0, "metrics": {"train/loss": value}}) for step, value in rows]
    journal.write_text("\n".join(lines) + "\n" + '{"step": 50, "metrics": {"train/lo')
    assert charts.read(journal) == {"train/loss": [(10, 0.7), (20, 0.5)]} and charts.read(tmp_path / "none") == {}
    seeds = {"seed_1/train/loss": [(1, 1.0)], "seed_10/train/loss": [(1, 2.0)]}
    assert charts.of_training("seed_1", seeds) == {"train/loss": [(1, 1.0)]}


def test_ticks_are_round_and_within_and_powers_enclose() -> None:
    assert charts.linear_ticks(0, 1) == [0.0, 0.5, 1.0] and charts.linear_ticks(0, 80) == [0, 20, 40, 60, 80]
    assert charts.linear_ticks(0.013, 0.021) == [0.014, 0.016, 0.018, 0.02] and charts.linear_ticks(5, 5) == [5]
    assert charts.log_ticks(0.02, 30) == [0.01, 0.1, 1, 10, 100] and len(charts.log_ticks(1e-12, 1e12)) <= 6


def facts(metrics: dict[str, float], task: str = "classification", counted: str = "images", **more: Any) -> Any:
    evaluate = SimpleNamespace(resamples=200)
    config = SimpleNamespace(model=SimpleNamespace(task=task), evaluate=evaluate)
    return SimpleNamespace(metrics=metrics, config=config, judged=counted, minimised="x", metric="accuracy", **more)


def measured(value: float, low: float, high: float) -> dict[str, float]:
    return {"test/accuracy": value, "test/accuracy/low": low, "test/accuracy/high": high}


def test_two_runs_differ_where_their_intervals_do_not_overlap_and_are_undecided_otherwise() -> None:
    def compared(one: dict[str, float], other: dict[str, float]) -> Row:
        [row] = results.compare(facts(one), facts(other), {"test": None})
        return row

    apart = compared(measured(0.8, 0.75, 0.85), measured(0.9, 0.86, 0.95))
    assert apart.more_than_noise and apart.tone == "good" and apart.change == "+0.1000"
    worse = compared(measured(0.9, 0.86, 0.95), measured(0.8, 0.75, 0.85))
    assert worse.more_than_noise and worse.tone == "bad"
    touching = compared(measured(0.8, 0.75, 0.85), measured(0.9, 0.85, 0.95))
    assert touching.more_than_noise is None and "overlap: undecided" in touching.verdict and touching.tone == ""
    assert compared({"test/accuracy": 0.5}, {"test/accuracy": 0.9}).verdict == "no interval"
    assert results.compare(facts({}), facts({}, task="regression"), {"test": None}) == []
    loss = {"test/loss": 0.5}
    before, after = facts(loss), facts(loss)
    assert len(results.compare(before, after, {"test": None})) == 1
    after.minimised = "y"
    assert results.compare(before, after, {"test": None}) == [], "another loss was minimised"


def test_a_verdict_says_which_run_is_better_in_the_primary_metric() -> None:
    comparison: Any = Comparison.__new__(Comparison)
    comparison.after = SimpleNamespace(metric="rmse")

    def verdict(difference: float, sure: bool | None, higher: bool = False) -> str:
        row = Row("test/rmse", 1.0, 1.0 + difference, difference, more_than_noise=sure, by="m", higher_is_better=higher)
        comparison.__dict__["results"] = [row]
        return str(comparison.verdict)

    assert verdict(0.5, True).startswith("b is worse than a by 0.5000")
    assert verdict(-0.5, True).startswith("b is better than a by 0.5000")
    assert verdict(0.5, True, higher=True).startswith("b is better than a")
    assert verdict(0.5, False).startswith("b is not shown to differ from a in test rmse, worse by 0.5000")
    assert verdict(0.0, None).startswith("b is as good as a")
    assert some(["a", "b", "c"], 2) == "a, b and 1 more" and some(["a", "b"], 2) == "a, b"


def test_the_hardest_passage_is_the_window_with_the_highest_loss() -> None:
    nats = np.zeros(1000)
    nats[500:510] = 5.0
    start = examples._hardest(nats)
    assert start <= 500 and start + examples.WINDOW >= 510 and examples._hardest(np.ones(examples.WINDOW)) == 0
    last = np.zeros(examples.WINDOW + 1)
    last[-1] = 1.0
    assert examples._hardest(last) == 1


def test_a_character_of_several_tokens_has_its_highest_shade() -> None:
    pieces = {1: b"a", 2: b"\xc3", 3: b"\xbc", 4: b"\xff"}
    codec: Any = SimpleNamespace(decode=lambda tokens: pieces[tokens[0]])
    marked = examples._marked(codec, np.array([1, 2, 3, 4, 2]), np.array([0, 3, 1, 2, 1]))
    assert marked == [("a", 0), ("ü", 3), ("\ufffd", 2), ("\ufffd", 1)]


def test_an_example_is_fixed_or_broken_by_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def side(*right: int) -> Any:
        return contributions(accuracy=np.array(right, float)[:, None])

    monkeypatch.setattr(results, "_keys", lambda records, split: ["a", "b", "c", "d"])
    found = results.examples(facts({}, one=lambda kind: object()), (side(0, 1, 1, 0), side(1, 0, 1, 0)))
    assert found is not None
    assert (found.fixed, found.broken, found.both_right, found.both_wrong) == (["a"], ["b"], 1, 1)


def test_the_front_is_drawn_through_what_is_accepted_and_not_dominated() -> None:
    def point(size: int, loss: float, accepted: bool = True, by: str | None = None) -> FrontEntry:
        return FrontEntry("", size, loss, None, accepted, by)

    points = {"a": point(1000, 0.0), "b": point(500, 0.1), "c": point(900, 0.2, by="b"), "d": point(100, 0.0, False)}
    svg = charts.front(points, "accuracy")
    [path] = [part.split('"')[0] for part in svg.split('<polyline class="curve c0 dashed" points="')[1:]]
    assert len(path.split()) == 2 and svg.count('class="dot c0"') == 2 and svg.count('<circle class="curve c1"') == 1
    assert charts.front({"a": points["a"]}, "accuracy") == ""


def test_a_variant_without_a_slice_has_an_empty_cell_there() -> None:
    loss = QualityLoss(0.1, 0.0, 0.2)
    x, y = (SliceLoss(name, 5, loss) for name in "xy")
    assert losses_by_slice({"one": (x,), "two": (x, y)}) == [("x", 5, [loss, loss]), ("y", 5, [None, loss])]


def test_bars_are_of_train_and_the_line_is_of_test() -> None:
    svg = charts.histogram({"train": [0.5, 0.25], "test": [0.1, 0.2]})
    assert svg.count("<rect") == 2 and 'height="36.0"' in svg and svg.count("<polyline") == 1
    assert "<polyline" not in charts.histogram({"train": [1.0]}) and charts.histogram({})


def test_numbers_are_said_in_units_of_people() -> None:
    assert [kilobytes(size) for size in (0, 99, 999_949, 1_000_000)] == ["0.1 kB", "0.1 kB", "999.9 kB", "1.0 MB"]
    assert [seconds(value) for value in (0.04, 89.9, 90, 3599.6)] == ["0.0 s", "89.9 s", "1:30 min", "60:00 min"]
    assert [figure(value) for value in (-0.00001, -0.1, 0.12345)] == ["0.0000", "-0.1000", "0.1235"]
    assert [change(value) for value in (0.1, -0.1, 0.0)] == ["loses 0.1000", "gains 0.1000", "loses 0.0000"]
    assert [_took(value) for value in (0.05, 0.1, 12.3)] == ["50 µs", "0.1 ms", "12.3 ms"]
    given = {"train/loss": 0.123456, "step_ms": 12.34, "examples/s": 1234.6, "input_share": 0.255, "seconds_left": 5.0}
    assert figures_in_words(given) == [
        "5.0 s left",
        "train/loss 0.1235",
        "12.3 ms/step",
        "1,235 examples/s",
        "input 26%",
    ]


def test_a_metric_is_said_with_its_interval_and_one_that_is_not_there_as_unknown() -> None:
    metrics = {**measured(0.9, 0.85, 0.95), "test/loss": 0.5}
    assert words.score(metrics, "test/accuracy") == "accuracy 0.9000 [0.8500, 0.9500]"
    assert words.score(metrics, "test/loss") == "loss 0.5000" and words.score({}, "test/loss") == "loss unknown"
    assert words.span(metrics, "test/accuracy") == ("0.9000", "0.8500 to 0.9500") and words.span({}, "x") is None
    assert words.one("queries") == "query" and words.one("images") == "image"
    assert words.primary_of({"test/rmse": 1.0}) == "rmse" and words.primary_of({}) == "score"


def test_a_variant_is_described_by_size_quality_loss_time_and_standing() -> None:
    metrics = {
        "int8/test/accuracy": 0.9,
        "int8/test/accuracy_loss": 0.01,
        "int8/size_ratio": 0.25,
        "int8/gzip_ratio": 0.24,
    }
    variant: Any = SimpleNamespace(
        name="int8", metrics=metrics, manifest={"statistics": {"bytes": 25_000, "methods": [{}]}}
    )
    front = {"int8": FrontEntry("int8", 1, 0.0, 0.5)}
    judged = Judgement(front=front, standing={"int8": "undecided"}, chosen="int8")
    made = variant_row(variant, judged, "accuracy", Latency()).cells("accuracy")
    assert made == (
        "int8",
        "25.0 kB",
        "0.25 of float",
        "accuracy 0.9000 (loses 0.0100)",
        "2.00 x faster than litert",
        "undecided, too few test examples, on the front, chosen",
    )
    plain = SimpleNamespace(name="int8", metrics=metrics, manifest={"statistics": {"bytes": 25_000}})
    row = variant_row(plain, Judgement(), "accuracy", Latency())  # type: ignore[arg-type]
    assert row.cells("accuracy")[3] == "accuracy 0.9000"
