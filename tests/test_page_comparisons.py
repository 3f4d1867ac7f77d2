"""Two runs held against each other: what is compared, what differs, and in which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.evaluation.estimates import TANGO
from tasks.view import comparison as comparison_of_runs
from tasks.view import results
from tasks.view.comparison import Comparison
from tests.support.stand_ins import contributions, facts


def side(metrics: dict[str, float], minimised: str | None, **more: Any) -> Any:
    config = SimpleNamespace(model=SimpleNamespace(task="classification"))
    return facts(metrics=metrics, minimised=minimised, config=config, metric="accuracy", **more)


def test_losses_are_compared_where_they_are_of_one_kind() -> None:
    metrics = {"test/accuracy": 0.5, "test/loss": 1.0}
    one, other = side(metrics, "cross_entropy"), side({**metrics, "test/accuracy": 0.75}, "own:focal")
    pairs: Any = {"test": None, "validation": None}
    assert [row.name for row in results.compare(one, one, pairs)] == ["test/accuracy", "test/loss"]
    [row] = results.compare(one, other, pairs)
    assert (row.name, row.a, row.b, row.higher_is_better) == ("test/accuracy", 0.5, 0.75, True)
    [row] = results.compare(side({"test/accuracy": 0.5}, "a"), side(metrics, "a"), pairs)
    assert row.name == "test/accuracy", "what both have"


def test_a_row_of_a_comparison_says_by_what_it_was_compared() -> None:
    def half(values: list[float], **metrics: float) -> Any:
        evaluate = SimpleNamespace(resamples=200)
        config = SimpleNamespace(model=SimpleNamespace(task="classification"), evaluate=evaluate)
        flat = {
            "test/accuracy": float(np.mean(values)),
            **{f"test/accuracy/{key}": each for key, each in metrics.items()},
        }
        made = facts(metrics=flat, config=config, judged="images", minimised=None)
        return contributions(accuracy=np.array(values)[:, None]), made

    def row(one: Any, other: Any, paired: bool = True) -> Any:
        pair = (one[0], other[0]) if paired else None
        return results._row(one[1], other[1], "test/accuracy", "accuracy", pair)

    alone = row(half([0.0], low=0.0, high=0.0), half([1.0], low=0.5, high=1.0))
    assert (alone.name, alone.a, alone.b, alone.difference) == ("test/accuracy", 0.0, 1.0, 1.0)
    assert alone.by == "one example: no interval" and not alone.more_than_noise
    few = row(half([0.0, 1.0] * 9), half([1.0, 1.0] * 9))
    assert few.by == f"{TANGO} over 18 images, too few for 95 % and McNemar's test" and few.difference == 0.5
    many = row(half([0.0, 1.0] * 10), half([1.0, 1.0] * 10))
    assert many.by == f"{TANGO} over 20 images and McNemar's test" and many.more_than_noise
    assert many.interval is not None and many.interval[0] > 0 and not many.same
    lacking = half([0.0, 1.0])
    lacking[0].values.clear()
    assert row(lacking, half([0.0, 1.0])).by == row(half([0.0, 1.0]), lacking).by == "no interval"
    same = row(half([0.0, 1.0] * 10), half([0.0, 1.0] * 10))
    assert same.same and not same.more_than_noise
    for one, other in ((half([0.0, 1.0]), half([1.0])), (half([1.0, 0.0]), half([1.0, 1.0]))):
        assert row(one, other, paired=len(one[0].values["accuracy"]) == 1).by == "no interval"


@pytest.mark.parametrize("what", ["added", "removed", "changed"])
def test_what_differs_in_the_data_of_two_runs_is_counted_and_named(what: str) -> None:
    raw: dict[str, Any] = {"added": [], "removed": [], "changed": [], "same": 1234}
    comparison: Any = SimpleNamespace(
        raw=SimpleNamespace(**raw), statistics=[], after=SimpleNamespace(counted="images")
    )
    assert list(Comparison._data_lines(comparison)) == ["data: the same"]
    setattr(comparison.raw, what, [f"k{number}" for number in range(7)])
    assert list(Comparison._data_lines(comparison)) == [
        "data: 1,234 images are the same",
        f"  7 {what}: k0, k1, k2, k3, k4 and 2 more",
        "  statistics: the same",
    ]
    setattr(comparison.raw, what, [])
    comparison.statistics = ["train.label: 1 -> 2"]
    assert list(Comparison._data_lines(comparison))[1:] == ["  statistics:", "    train.label: 1 -> 2"]


def test_many_lines_of_a_section_are_cut_and_counted() -> None:
    lines = [f"line {number}" for number in range(comparison_of_runs.MOST)]
    assert list(comparison_of_runs._part("x", lines)) == ["x:", *(f"  {line}" for line in lines)]
    more = list(comparison_of_runs._part("x", [*lines, "a", "b"]))
    assert more[-1].startswith("  and 2 more") and len(more) == len(lines) + 2


def test_keys_of_examples_that_became_right_or_wrong_are_named_up_to_so_many() -> None:
    made = results.Examples(["a", "b", "c"], [], 1234, 5)
    assert list(made.lines(2)) == [
        "1,234 right in both, 5 wrong in both",
        "3 wrong in a, right in b: a, b and 1 more",
        "0 right in a, wrong in b",
    ]
    assert list(made.lines(3))[1] == "3 wrong in a, right in b: a, b, c"


def test_a_comparison_is_said_part_by_part() -> None:
    one = facts(run=SimpleNamespace(run_id="run-1"), record={"flow": "training", "status": "completed"})
    row = results.Row("test/accuracy", 0.5, 0.75, 0.25, by="no interval", higher_is_better=True)
    comparison: Any = SimpleNamespace(
        both=(one, one),
        verdict="b is better",
        _data_lines=lambda: iter(["data: the same"]),
        config=["train.steps: 1 -> 2"],
        code=[],
        history=None,
        environment=[],
        results=[row],
        examples=results.Examples(["k"], [], 1, 0),
    )
    lines = list(Comparison.lines(comparison))
    assert lines[:3] == ["a  run-1  training, completed", "b  run-1  training, completed", "b is better"]
    assert lines[3:6] == ["data: the same", "config:", "  train.steps: 1 -> 2"]
    assert lines[6:8] == ["code: the same", "environment: the same"]
    assert lines[8].split() == ["results:", "a", "b", "b", "-", "a"]
    assert lines[9].split()[:4] == ["test/accuracy", "0.5000", "0.7500", "+0.2500"] and "no interval" in lines[9]
    assert lines[10:12] == ["test examples:", "  1 right in both, 0 wrong in both"]
    comparison.results, comparison.examples = [], None
    comparison.history = SimpleNamespace(commits=["c1"], files=[])
    assert list(Comparison.lines(comparison))[7:] == [
        "  commits that only one has (1):",
        "    c1",
        "  files (0): the same",
        "environment: the same",
    ]
