"""What decides that a variant stays: exact boundaries of gates, one gate among several, and the numbers they read."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.compression.judgement import slowest_of
from tasks.compression.methods.prune import Cluster
from tasks.compression.verdicts import standing_of
from tasks.config.base import size_in_bytes
from tasks.config.task import TASKS
from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.estimates import Counted
from tasks.evaluation.gates import FAIL, PASS, UNDECIDED, Ratio, Verdict
from tasks.evaluation.gating import CompressGate, PromoteGate, Subject
from tasks.evaluation.judging import limit
from tasks.evaluation.multiple_testing import ERROR, at_most, decide, loss
from tasks.evaluation.multiple_testing import Test as LimitTest
from tasks.evaluation.tasks import judge_of


def verdict(kind: str, few: bool = False) -> Verdict:
    return Verdict("gate", 0.0, 0.0, kind, "text", few=few)


@pytest.mark.parametrize(
    ("verdicts", "keep", "keep_if_few", "reject"),
    [
        ([verdict(PASS)], "accepted", "accepted", "accepted"),
        ([verdict(PASS), verdict(FAIL)], "rejected", "rejected", "rejected"),
        ([verdict(UNDECIDED, few=True), verdict(FAIL)], "rejected", "rejected", "rejected"),
        ([verdict(PASS), verdict(UNDECIDED, few=True)], "undecided", "undecided", "rejected"),
        ([verdict(PASS), verdict(UNDECIDED)], "undecided", "rejected", "rejected"),
        ([verdict(UNDECIDED, few=True), verdict(UNDECIDED)], "undecided", "rejected", "rejected"),
        ([verdict(UNDECIDED, few=True), verdict(UNDECIDED, few=True)], "undecided", "undecided", "rejected"),
    ],
)
def test_one_gate_that_has_enough_examples_and_shows_nothing_is_not_few(
    verdicts: list[Verdict], keep: str, keep_if_few: str, reject: str
) -> None:
    standings = [standing_of(verdicts, undecided) for undecided in ("keep", "keep_if_few", "reject")]
    assert standings == [keep, keep_if_few, reject]


def test_the_latency_that_decides_is_the_largest_on_one_thread() -> None:
    def row(threads: int, ratio: float, conclusive: bool = True, again: float = 1.0) -> dict[str, Any]:
        return {"threads": threads, "variants": {"int8": {"ratio": ratio}}, "conclusive": conclusive, "again": again}

    latency = {"settings": [row(1, 0.4), row(1, 0.6), row(2, 0.9)]}
    assert slowest_of("int8", latency) == Ratio(0.6, 1.0)
    assert slowest_of("other", latency) is None and slowest_of("int8", {}) is None
    assert slowest_of("int8", {"settings": [row(1, 0.5, False, 0.8)]}) == Ratio(0.5, 1.25)
    assert slowest_of("int8", {"settings": [row(1, 0.5, False, 1.2)]}) == Ratio(0.5, 1.2)


def of(own: np.ndarray, metric: str = "loss", task: str = "classification", **more: Any) -> Subject:
    return Subject(
        task, EvaluateConfig().primary_of(task), {metric: own}, {metric: np.zeros_like(own)}, "the float model", **more
    )


def gate(**values: Any) -> Any:
    return TypeAdapter(CompressGate).validate_python({"kind": "float", **values})


def test_a_slice_of_as_many_examples_as_are_asked_for_is_judged() -> None:
    own = np.zeros((60, 1))
    own[:20] = 5.0  # far beyond the limit in the small slice alone
    masks = {"small": np.arange(60) < 20, "large": np.arange(60) >= 20}
    for least, expected in ((20, FAIL), (21, PASS)):
        slices = gate(kind="slices", metric="loss", max_loss=0.1, least=least)
        [[found]] = decide([slices.find(of(own, masks=masks))])
        assert found.verdict == expected, found.text


@pytest.mark.parametrize("task", TASKS)
def test_which_direction_is_better_is_each_metrics_own(task: str) -> None:
    """Not that of the primary one: a classifier's loss is better where it is lower."""
    for name in judge_of(task).metrics:
        subject = of(np.zeros((1, 1)), name, task)
        assert subject.metric(gate(metric=name, max_loss=0.1))[2] == (-1 if name in TASKS[task].lower_is_better else 1)
    known = {"loss", "calibration_error", "rmse", "mae", "bits_per_byte"}
    assert known.intersection(TASKS[task].metrics) == TASKS[task].lower_is_better


def test_a_metric_that_counts_no_examples_is_not_shown_by_few() -> None:
    random = np.random.default_rng(0)
    metric = judge_of("regression").metrics["rmse"]
    for count in (MIN_EXAMPLES - 1, MIN_EXAMPLES):
        before = random.normal(0, 1, (count, 1)) ** 2
        tests = [
            loss("quality", metric, before, before * (1 + 1e-6 * random.random((count, 1))), -1, 0.5),
            at_most("absolute", metric, before, 1, 9.0),
        ]
        for test in tests:
            [[found]] = decide([[test]])
            assert found.verdict == (PASS if count == MIN_EXAMPLES else UNDECIDED)
            assert found.few is (count < MIN_EXAMPLES)


def test_holms_method_decides_and_not_each_test_by_itself() -> None:
    def test(p_value: float) -> LimitTest:
        return LimitTest("quality", "loses", 0.01, 0.0, 0.019, 0.02, p_value, 500, 0.0, Counted(495, 500), "examples")

    assert pytest.approx(0.05) == ERROR
    alone, both = decide([[test(0.04)]]), decide([[test(0.04)], [test(0.04)]])
    assert [row[0].verdict for row in alone] == [PASS]
    assert [row[0].verdict for row in both] == [UNDECIDED, UNDECIDED]
    assert [row[0].verdict for row in decide([[test(0.05)]])] == [PASS]  # the boundary is within
    assert [row[0].verdict for row in decide([[test(0.020)], [test(0.04)]])] == [PASS, PASS]
    assert [row[0].verdict for row in decide([[test(0.026)], [test(0.04)]])] == [UNDECIDED, UNDECIDED]


@pytest.mark.parametrize("task", TASKS)
def test_a_limit_of_0_is_a_limit(task: str) -> None:
    metrics = judge_of(task).metrics
    primary = metrics[TASKS[task].metrics[0]]
    assert limit(task, primary, 0.0, 0.9) == 0.0 and limit(task, primary, 0.3, 0.9) == 0.3
    default = TASKS[task].default_quality_loss
    assert limit(task, primary, None, 0.5) == (default * 0.5 if TASKS[task].in_target_units else default) > 0
    if "r2" in metrics:
        assert limit(task, metrics["r2"], None, 0.5) == default, "a share is in no units"


@pytest.mark.parametrize(("rmse", "expected"), [(0.5, PASS), (0.5099, PASS), (0.5101, FAIL), (2.0, FAIL)])
def test_what_a_regression_may_lose_is_a_share_of_the_float_models_error_and_not_of_its_own(
    rmse: float, expected: str
) -> None:
    """2 % of 0.5, however wrong the variant is."""
    before, after = np.full((60, 1), 0.25), np.full((60, 1), rmse**2)
    [[found]] = decide(
        [gate().find(Subject("regression", ("rmse", False), {"rmse": after}, {"rmse": before}, "float"))]
    )
    assert found.limit == pytest.approx(0.01) and found.verdict == expected
    assert found.value == pytest.approx(rmse - 0.5, abs=1e-9)


@pytest.mark.parametrize("kind", ["float", "champion", "slices"])
@pytest.mark.parametrize(("metric", "better"), [("accuracy", 1), ("loss", -1)])
def test_what_is_lost_goes_from_the_reference_to_the_subject(kind: str, metric: str, better: int) -> None:
    """Of each gate that compares: the other way round a gain would be a loss."""
    reference, own = (np.where(np.arange(60) < right, 1.0, 1 - better * 1.0)[:, None] for right in (60, 48))
    adapter: TypeAdapter[Any] = TypeAdapter(PromoteGate if kind == "champion" else CompressGate)
    judged = adapter.validate_python({"kind": kind, "metric": metric, "max_loss": 0.1})

    def verdict(before: np.ndarray, after: np.ndarray) -> Verdict:
        masks = {"all": np.ones(60, bool)}
        [[found]] = decide(
            [
                judged.find(
                    Subject("classification", (metric, better > 0), {metric: after}, {metric: before}, "", masks=masks)
                )
            ]
        )
        return found

    lost, gained = verdict(reference, own), verdict(own, reference)
    assert (lost.verdict, gained.verdict) == (FAIL, PASS) and lost.limit == gained.limit == 0.1
    assert lost.value > 0.1 and gained.value < 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1kB", 1000),
        ("1KiB", 1024),
        ("2MB", 2_000_000),
        ("2MiB", 2 << 20),
        ("1GB", 10**9),
        ("1GiB", 1 << 30),
        ("7B", 7),
    ],
)
def test_units_of_ten_and_of_two_are_two(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("zeros", [0, 1, 20])
def test_a_layer_has_no_more_values_than_are_asked_for_zero_included(zeros: int) -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(5, name="dense")])
    weights = np.random.default_rng(0).normal(0, 1, (8, 5)).astype("float32")
    weights.ravel()[:zeros] = 0
    model.layers[-1].kernel.assign(weights)
    Cluster(clusters=4).change(model)
    made = np.asarray(model.layers[-1].kernel)
    assert len(np.unique(made)) == 4 and (made == 0).sum() == zeros
