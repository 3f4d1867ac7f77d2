"""Verdicts at their edges: a baseline that is equalled, a gate that is open, limits and tests at their extremes."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats

from tasks.evaluation.differences import Paired, PairedShares, tango
from tasks.evaluation.gates import FAIL, PASS, UNDECIDED, Champion, Promotion, Ratio, Verdict, promotion, with_gates
from tasks.evaluation.gates import latency as judge_latency
from tasks.evaluation.gating import CompressGate, Subject
from tasks.evaluation.measured import BesideBaseline, Interval
from tasks.evaluation.metrics import Means, Share, mean
from tasks.evaluation.multiple_testing import ERROR, at_most, decide, loss
from tasks.evaluation.multiple_testing import Test as LimitTest
from tasks.evaluation.paired import Contributions, PairedDifference, change, mcnemar
from tasks.runner import releasing
from tasks.view import facts, results
from tests.support.registries import champion_beside
from tests.support.versions import beside_baseline

SHARE = Share(lambda values: values)
MEAN = Means(lambda values: values, mean)
METRIC = "test/accuracy"


def right(wrong: int, count: int) -> np.ndarray:
    return (np.arange(count) >= wrong).astype(np.float64)[:, None]


def gate(**values: Any) -> Any:
    return TypeAdapter(CompressGate).validate_python(values)


def promoted(score: float, champion: Champion | float | None = None, margin: float = 0.0, **more: Any) -> Promotion:
    """A version with a score beside a champion with one."""
    if isinstance(champion, float):
        champion = champion_beside(champion, score, more.pop("change", None), higher=more.get("higher", True))
    return promotion(METRIC, score, champion, margin, more.pop("higher", True), **more)


def baseline(score: float, value: float, name: str = "majority") -> BesideBaseline:
    """One beside a version with a score; a difference of 0.005 may be noise."""
    return BesideBaseline.from_json(name, beside_baseline(score, value))


def test_a_model_must_be_better_than_each_baseline_and_not_as_good() -> None:
    for score, passes in ((0.81, True), (0.801, False), (0.8, False), (0.79, False)):
        assert promoted(score, baselines=[baseline(score, 0.8)]).passed is passes
        assert promoted(-score, baselines=[baseline(-score, -0.8)], higher=False).passed is passes
    assert not promoted(0.85, baselines=[baseline(0.85, 0.1), baseline(0.85, 0.9)]).passed
    assert not promoted(math.nan, baselines=[baseline(math.nan, 0.1)]).passed


def test_what_a_baseline_refuses_is_said_with_the_difference_and_what_would_help() -> None:
    """Only those that are not beaten are named with their difference."""
    made = promoted(0.801, baselines=[baseline(0.801, 0.8, "simple"), baseline(0.801, 0.1, "majority")])
    assert made.text == (
        "test accuracy 0.8010 (simple 0.8000, majority 0.1000): not better than a baseline by more than noise (simple: "
        "difference +0.0010, within noise, 95 % interval -0.0040 to +0.0060); train a better model, test on more "
        "examples, or accept it with promote.baseline: none"
    )


def test_a_baseline_comes_before_the_champion_whose_score_is_kept() -> None:
    made = promoted(0.7, 0.6, baselines=[baseline(0.7, 0.7)])
    assert (made.passed, made.against, made.before, made.approvable) == (False, "1", 0.6, False)


def test_without_a_champion_a_version_is_the_first() -> None:
    made = promoted(0.1)
    assert made.passed and made.against is None and made.before is None


@pytest.mark.parametrize(("score", "margin", "passes"), [(0.5, 0.0, True), (0.75, 0.25, True), (0.74, 0.25, False)])
def test_a_margin_that_is_reached_exactly_is_reached(score: float, margin: float, passes: bool) -> None:
    """All these numbers are exact in binary."""
    assert promoted(score, 0.5, margin).passed is passes
    assert promoted(-score, -0.5, margin, higher=False).passed is passes


def test_a_negative_margin_bounds_what_many_nights_lose_together() -> None:
    """Each new version is 0.004 worse than the last, within noise and within the margin of 0.01."""
    best = champion = 0.95
    behind, promotions = 0.0, 0
    for _ in range(60):
        present = replace(champion_beside(champion, champion - 0.004), behind=behind)
        made = promotion(METRIC, champion - 0.004, present, -0.01, True)
        if made.passed:
            champion, behind, promotions = champion - 0.004, made.behind, promotions + 1
        else:
            assert f"the champion is {behind:.4f} behind the best of those before it" in made.text
    assert promotions == 2 and champion >= best - 0.01 and behind == pytest.approx(best - champion)
    better = promotion(METRIC, 0.96, replace(champion_beside(champion, 0.96), behind=behind), -0.01, True)
    assert better.passed and better.behind == 0.0
    ahead = promotion(METRIC, 0.943, replace(champion_beside(champion, 0.943), behind=behind), 0.0, True)
    assert ahead.passed and ahead.behind == pytest.approx(0.007), "better than the champion, if not than the best"
    price = champion_beside(25_000.0, 24_600.0, higher=False)
    for margin, passes in ((300.0, True), (500.0, False)):
        assert promotion(METRIC, 24_600.0, price, margin, False).passed is passes, "in units of the metric"


def test_it_is_compared_by_the_champions_metric_and_told_so() -> None:
    """A loss of 0.9 is worse than one of 0.1, whatever the new version's own metric says."""
    for before, passes in ((0.1, False), (1.1, True)):
        made = promoted(0.97, champion_beside(before, 0.9, metric="test/loss", higher=False))
        assert made.passed is passes and made.comparable
        assert made.text.startswith("test accuracy 0.9700; by test loss, by which the champion was judged, 0.9000")
        assert f"against {before:.4f} of champion version 1" in made.text


def test_what_cannot_be_compared_does_not_pass() -> None:
    made = promoted(0.9, Champion("1", METRIC, 0.1, None, "it is gone"), margin=-9.0)
    assert not made.passed and not made.comparable and made.approvable
    assert "(test accuracy 0.9000; champion version 1 has test " in made.text
    assert not promoted(math.nan, 0.5, margin=-9.0).passed


def test_a_verdict_says_what_its_interval_does_not_show() -> None:
    """A permutation test that disagrees with an interval without 0, and an interval of few: ten of 90 decide."""
    for low, sure, units, words in (
        (0.001, False, 90, "; within noise by a permutation test, 95 % interval +0.0010 to +0.0300)"),
        (-0.001, False, 90, "; within noise, 95 % interval -0.0010 to +0.0300)"),
        (-0.001, True, 90, "; more than noise by a permutation test, 95 % interval -0.0010 to +0.0300)"),
        (0.001, True, 20, "; more than noise, 95 % interval +0.0010 to +0.0300)"),
        (0.001, True, 10, ", 95 % interval +0.0010 to +0.0300, effective sample size 10: too few for 95 %)"),
    ):
        interval = Interval(0.01, low, 0.03, "", units)
        assert promoted(0.81, 0.8, change=PairedDifference(interval, sure, same=False)).text.endswith(words)
    unsure = BesideBaseline("majority", 0.8, Interval(0.01, 0.001, 0.03, "", 90), more_than_noise=False)
    assert "+0.0100, within noise by a permutation test, 95 % interval" in promoted(0.81, baselines=[unsure]).text


def test_a_change_that_is_more_than_noise_and_a_gain_is_no_reason_to_refuse() -> None:
    before, after = right(80, 400), right(20, 400)
    gained, lost = change(SHARE, before, after, 200), change(SHARE, after, before, 200)
    assert gained.more_than_noise and lost.more_than_noise
    assert promoted(0.95, 0.8, change=gained).passed
    assert not promoted(0.8, 0.95, margin=-1.0, change=lost).passed
    assert promoted(0.8, 0.8, change=change(SHARE, before, before, 200)).passed
    assert not promoted(0.8, 0.8, change=change(SHARE, before, before, 200), require="better").passed


def test_an_open_gate_lets_no_version_pass() -> None:
    def verdict(kind: str) -> Verdict:
        return Verdict("quality", 0.0, 0.0, kind, "text")

    first = promoted(0.9)
    assert with_gates(first, []).passed and with_gates(first, [verdict(PASS)]).passed
    assert not with_gates(first, [verdict(PASS), verdict(UNDECIDED)]).passed
    assert not with_gates(first, [verdict(FAIL), verdict(PASS)]).passed
    assert not with_gates(promoted(0.1, baselines=[baseline(0.1, 0.5)]), [verdict(PASS)]).passed


def test_a_verdict_on_no_number_is_null_in_json() -> None:
    row = Verdict("quality", math.nan, 0.1, UNDECIDED, "text").as_json()
    assert row["value"] is None and row["passed"] is False and row["limit"] == 0.1


@pytest.mark.parametrize(
    ("ratio", "error", "expected"),
    [(0.25, 2.0, PASS), (0.5, 1.0, PASS), (0.5, 2.0, UNDECIDED), (1.0, 2.0, UNDECIDED), (1.1, 2.0, FAIL)],
)
def test_an_imprecise_latency_is_open_where_the_limit_is_within_its_error(
    ratio: float, error: float, expected: str
) -> None:
    assert judge_latency(ratio, 0.5, error).verdict == expected


def test_the_size_after_gzip_is_judged_beside_the_default_size_alone() -> None:
    ratios = {"bytes": Ratio(1.0), "gzip_bytes": Ratio(0.9)}

    def judged(limits: dict[str, float], **more: Any) -> list[str]:
        of = Subject("classification", ("accuracy", True), {}, {}, "the float model", ratios=ratios, limits=limits)
        return [
            each.verdict for [row] in [decide([gate(kind="float", metric="bytes", **more).find(of)])] for each in row
        ]

    smaller = {"bytes": 1.05, "gzip_bytes": 0.7}
    assert judged(smaller) == [PASS, FAIL]
    assert judged(smaller, max_ratio=1.05) == [PASS], "who gives a limit means that of the file"
    assert judged({"bytes": 1.05, "gzip_bytes": 1.0}) == [PASS]


def test_what_was_not_measured_is_open_and_asks_for_no_examples() -> None:
    of = Subject("classification", ("accuracy", True), {}, {}, "the float model", limits={"bytes": 0.3})
    for each in ({"kind": "float", "metric": "latency", "max_ratio": 0.5}, {"kind": "float", "metric": "bytes"}):
        [[found]] = decide([gate(**each).find(of)])
        assert found.verdict == UNDECIDED and not found.few and found.more is None
    [[found]] = decide([gate(kind="absolute", metric="peak_bytes", at_most=9).find(of)])
    assert found.verdict == UNDECIDED and found.limit == 9


def test_a_slice_that_is_shown_to_fail_is_named_before_one_that_shows_less() -> None:
    """Ten examples have a p-value of 1, and prove nothing; the large slice is beyond its limit."""
    own, before = np.zeros((1010, 1)), np.zeros((1010, 1))
    own[:10] = np.random.default_rng(0).normal(0, 40, (10, 1))
    own[10:] = np.random.default_rng(1).normal(0.3, 0.5, (1000, 1))
    masks = {"small": np.arange(1010) < 10, "large": np.arange(1010) >= 10}
    wanted = gate(kind="slices", metric="loss", max_loss=0.1, least=5)

    def judged(*names: str) -> Verdict:
        chosen = {name: masks[name] for name in names}
        of = Subject("classification", ("loss", False), {"loss": own}, {"loss": before}, "float", masks=chosen)
        return decide([wanted.find(of)])[0][0]

    assert [judged(name).verdict for name in masks] == [UNDECIDED, FAIL]
    found = judged("small", "large")
    assert found.verdict == FAIL and found.text.startswith("large: ")


def test_of_slices_that_may_pass_the_weakest_evidence_decides() -> None:
    own = right(0, 400)
    masks = {"large": np.arange(400) < 350, "small": np.arange(400) >= 350}
    of = Subject("classification", ("accuracy", True), {"accuracy": own}, {"accuracy": own}, "float", masks=masks)
    [[found]] = decide([gate(kind="slices", max_loss=0.02).find(of)])
    assert found.verdict == UNDECIDED and found.text.startswith("small: ")


def a_test(**fields: Any) -> LimitTest:
    whole: dict[str, Any] = {
        "gate": "quality",
        "what": "loses",
        "value": 0.01,
        "lower": 0.0,
        "upper": 0.05,
        "limit": 0.02,
        "p_value": 0.3,
        "examples": 500,
        "best": 0.0,
        "estimate": Paired(-0.01, 0.1 / math.sqrt(500), 0.0, 500, 499),
        "counted": "examples",
    }
    return LimitTest(**{**whole, **fields})


def test_a_lower_bound_at_the_limit_is_not_beyond_it() -> None:
    assert decide([[a_test(lower=0.02)]])[0][0].verdict == UNDECIDED
    assert decide([[a_test(lower=0.0201)]])[0][0].verdict == FAIL
    for value in (math.nan, math.inf):
        assert decide([[a_test(value=value, p_value=0.0)]])[0][0].verdict == FAIL


def test_few_and_more_are_of_the_level_that_so_many_tests_leave() -> None:
    alone = decide([[a_test(best=0.03)]])[0][0]
    both = decide([[a_test(best=0.03)], [a_test(best=0.03)]])[0][0]
    assert not alone.few and both.few
    assert alone.more is not None and both.more is not None and both.more > alone.more
    assert both.more == a_test().more(ERROR / 2)


def test_values_that_should_be_large_are_shown_as_they_are() -> None:
    wanted = gate(kind="absolute", metric="accuracy", at_least=0.9)
    own = right(10, 400)
    [[found]] = decide([wanted.find(Subject("classification", ("accuracy", True), {"accuracy": own}, {}, ""))])
    exact = stats.binomtest(390, 400, 0.9, "greater")
    assert found.verdict == PASS and found.limit == 0.9
    assert found.value == pytest.approx(exact.proportion_ci(0.95).low) and found.p_value == pytest.approx(exact.pvalue)
    assert found.text.startswith("has at least 0.95")


def test_a_share_has_the_exact_test_in_both_directions() -> None:
    own = right(30, 100)
    large, small = at_most("g", SHARE, own, -1, 0.6), at_most("g", SHARE, own, 1, 0.8)
    assert large.p_value == pytest.approx(stats.binomtest(70, 100, 0.6, "greater").pvalue)
    assert small.p_value == pytest.approx(stats.binomtest(70, 100, 0.8, "less").pvalue)
    assert large.value == pytest.approx(-0.7) and small.value == pytest.approx(0.7)
    assert [large.best, small.best] == pytest.approx([0.6**100, 0.2**100], rel=1e-9, abs=0)
    assert large.lower < -0.7 < large.upper and small.lower < 0.7 < small.upper


def test_how_many_more_are_asked_for() -> None:
    for count in (10, 100, 2000):
        found = Paired(-0.01, 0.1 / math.sqrt(count), 0.0, count, count - 1)
        needed = a_test(examples=count, estimate=found).more(0.05)
        assert needed is not None
        whole = ((1.6449 + 0.8416) * 0.1 / 0.01) ** 2
        assert count + needed == max(math.ceil(whole), 20, count + 1)
    at_its_limit = Paired(-0.02, 0.01, 0.0, 500, 499)
    assert a_test(value=0.02, estimate=at_its_limit).more(0.05) is None
    exact = a_test(value=0.0, estimate=PairedShares(0, 0, 5), examples=5)
    assert exact.more(0.05) == 149 - 5
    assert a_test(value=0.0, estimate=PairedShares(0, 0, 5), examples=5, limit=1.5).more(0.05) is None
    of_positives = a_test(estimate=Paired(-0.01, 0.02, 0.0, 25, 24), examples=500).more(0.05)
    assert of_positives == math.ceil(((1.6449 + 0.8416) * 0.02 * 5 / 0.01) ** 2 * 20) - 500, "of which 1 of 20 counts"


def test_scores_of_pairs_at_the_ends_of_a_limit() -> None:
    assert tango(0, 0, 10, 1.0) == 0.0 and tango(5, 5, 10, 1.5) == 0.0
    assert tango(10, 2, 400, 0.1) < 0.001 < 0.5 < tango(60, 2, 400, 0.1)
    assert tango(0, 0, 5, 0.0) == 1.0, "none differs, and the limit is none"
    alike = PairedShares(0, 0, 10)
    assert [alike.p_at_most(-limit) for limit in (0.0, 1.0)] == [1.0, 0.0]
    assert alike.p_at_most(-0.1) == pytest.approx(0.9**10) == alike.p_at_least(0.1)


def test_as_many_lost_as_won_is_a_loss_of_exactly_nothing() -> None:
    before, after = right(20, 300), np.roll(right(20, 300), 20, axis=0)
    found = loss("g", SHARE, before, after, 1, 0.1)
    assert found.value == 0.0 and found.p_value == tango(20, 20, 300, 0.1)


def test_a_change_of_one_example_or_of_chance_is_no_change() -> None:
    one = change(MEAN, np.zeros((1, 1)), np.ones((1, 1)), 100)
    assert not one.more_than_noise and not one.same and one.difference.value == 1.0
    assert mcnemar(np.array([0, 0, 1]), np.array([1, 1, 0])) == pytest.approx(stats.binomtest(2, 3).pvalue)
    assert mcnemar(np.ones(3), np.ones(3)) == 1.0


def test_a_champion_is_scored_again_on_what_both_models_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a text that one of them cuts is no part of the comparison: its bytes are others."""
    numbers = np.arange(4)
    own = Contributions(
        {},
        {"loss": numbers[:, None] / 2.0},
        numbers.astype(np.uint64),
        np.asarray([1.0, 0.5, 1.0, 1.0]),
        None,
        lambda _: numbers >= 0,
        numbers,
        4,
    )
    theirs = {"extents": [1.0, 1.0, 1.0, 1.0], "contributions": {"loss": [[0.1], [0.2], [0.3], [0.4]]}}
    monkeypatch.setattr(facts, "Facts", lambda run: run)
    monkeypatch.setattr(results, "contributions", lambda *_: own)
    monkeypatch.setattr(releasing, "_score_again", lambda *_: theirs)
    again: Any = releasing._again
    kept, champion = again(SimpleNamespace(run=None), None, None, None, None)
    assert kept.places.tolist() == [0, 2, 3] and champion["loss"].ravel().tolist() == [0.1, 0.3, 0.4]
