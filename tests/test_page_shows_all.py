"""Pages: the end of a curve, which runs are compared example by example, and which variant was judged."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.compression.judgement import Judgement
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.paired import Contributions
from tasks.view import results
from tasks.view.charts import CURVES, MOST, Curve, draw
from tasks.view.facts import Facts


@pytest.mark.parametrize("count", [2, MOST, MOST + 1, MOST + 2, 3 * MOST + 1, 1001])
def test_a_curve_ends_with_its_last_point(count: int) -> None:
    """However many of the others are left out."""
    points = [(step, 0.5 + step / count / 10) for step in range(1, count)] + [(count, 9.0)]
    [path] = re.findall(r'<polyline[^>]*points="([^"]*)"', draw("loss", [Curve("", points)]))
    drawn = [tuple(map(float, each.split(","))) for each in path.split(" ")]
    assert drawn[-1][0] == pytest.approx(CURVES.width - CURVES.right, abs=0.1)
    assert drawn[-1][1] == min(y for _, y in drawn) < CURVES.height / 4
    assert len(drawn) <= MOST + 1 and drawn[0][0] == pytest.approx(CURVES.x(1 / count), abs=0.1)


def records(keys: dict[str, str], count: int | None = None, digest: str = "a") -> Any:
    """Records whose test split has these keys, each with the hash of its content."""
    manifest = {"counts": {"test": len(keys) if count is None else count}, "inputs": {"sources": list(keys.items())}}
    return SimpleNamespace(digest=digest, manifest=manifest, path=Path(), keys=list(keys))


def test_a_variant_that_a_search_only_tried_is_not_judged() -> None:
    judgement = Judgement(standing={"a": "accepted", "b": "rejected", "c": "undecided"})
    said = [judgement.words(name) for name in "abcd"]
    assert said == ["", "rejected by its gate", "undecided, too few test examples", "not judged"]
    assert Judgement().words("a") == ""


@pytest.mark.parametrize(
    ("standing", "named"),
    [
        ({"large": "accepted", "middle": "accepted", "small": "accepted"}, "small"),
        ({"large": "accepted", "middle": "accepted", "small": "rejected"}, "middle"),
        ({"large": "accepted", "middle": "undecided"}, "middle"),  # what only a search tried was not judged
        ({"large": "rejected", "middle": "rejected"}, None),
    ],
)
def test_the_smallest_form_that_is_named_was_judged_and_accepted(standing: dict[str, str], named: str | None) -> None:
    sizes = {"large": 3000, "middle": 2000, "small": 1000}
    facts: Any = SimpleNamespace(
        config=SimpleNamespace(source=SimpleNamespace(name="digits")),
        one=lambda kind: None,
        model=None,
        report=None,
        judgement=Judgement(standing=standing),
        variants=[SimpleNamespace(name=name, manifest={"statistics": {"bytes": size}}) for name, size in sizes.items()],
        release=None,
        record={"status": "completed"},
    )
    said = Facts.summary.fget(facts)  # type: ignore[attr-defined]
    assert ("Its smallest accepted form" in said) is (named is not None)
    assert named is None or f"form, {named}, takes" in said


def test_two_runs_are_compared_on_the_examples_that_both_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by what it is, not by its place in the split."""

    def judged(first: int, count: int) -> Contributions:
        numbers = np.arange(first, first + count)
        values = {"accuracy": numbers[:, None].astype(float)}
        return Contributions(
            {}, values, numbers.astype(np.uint64), np.ones(count), None, lambda _: numbers > 0, numbers, count
        )

    def facts(examples: Contributions) -> Any:
        return SimpleNamespace(config=SimpleNamespace(model=SimpleNamespace(task="classification")), examples=examples)

    monkeypatch.setattr(results, "contributions", lambda facts, *_: facts.examples)
    both = results.pair(facts(judged(0, 50)), facts(judged(10, 60)), "test", EvaluateConfig())
    assert both is not None
    assert [each.values["accuracy"][:, 0].tolist() for each in both] == [list(range(10, 50))] * 2
    assert results.pair(facts(judged(0, 50)), facts(judged(40, 60)), "test", EvaluateConfig()) is None, (
        "ten are too few"
    )
