"""The coverage of every interval that is reported, and the distribution of every p-value, by simulation."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tasks.config.task import TASKS
from tasks.evaluation.calibration import consistency_test
from tasks.evaluation.intervals import interval, intervals
from tasks.evaluation.measured import LEVEL, Interval
from tasks.evaluation.paired import change
from tasks.evaluation.tasks import classification, judge_of, language_model, multilabel, ranking, regression, tagging
from tests.benchmarks import coverage

Random = np.random.Generator

FEW_SETS = 60
PLACES = {"even": (20, 50), "rare": (50,), "edge": (50,), "clustered": (20 * coverage.GROUP, 30 * coverage.GROUP)}
"""Numbers of examples by scene of the benchmark; the clustered ones are of 20 and 30 units."""
SETS, EXAMPLES = 160, 120
TOLERANCE = 0.06
"""Three standard errors of a share of 95 % among so many sets."""


def classifier(random: Random, count: int, honest: bool) -> classification.Predictions:
    """Labels drawn from the model's own probabilities, or from flatter ones: it is too sure."""
    logits = random.normal(0, 1.5, (count, 4))
    chances = np.exp(logits * (1 if honest else 0.5))
    labels = (chances.cumsum(1) / chances.sum(1, keepdims=True) < random.random((count, 1))).sum(1)
    return classification.Predictions.of(logits, labels)


def labeller(random: Random, count: int, honest: bool) -> multilabel.Predictions:
    logits = random.normal(0, 2, (count, 3))
    truth = random.random(logits.shape) < 1 / (1 + np.exp(-logits * (1 if honest else 0.4)))
    return multilabel.Predictions(logits, truth)


def detector(random: Random, count: int, honest: bool) -> multilabel.Predictions:
    """One of four is an anomaly."""
    truth = random.random((count, 1)) < 0.25
    spread = 1.0 if honest else np.where(truth, 1.5, 0.7)
    return multilabel.Predictions(random.normal(0, 1, truth.shape) * spread + 1.5 * truth - 1, truth)


def searcher(random: Random, count: int, honest: bool) -> ranking.Predictions:
    """Queries of six documents, one of which at least is relevant."""
    truth = random.random((count, 6)) < 0.25
    truth[:, 0] |= ~truth.any(axis=1)
    scores = random.normal(0, 1, truth.shape) * (1 if honest else random.gamma(1, 1, (count, 1))) + truth
    query = np.repeat(np.arange(count), 6)
    return ranking.Predictions(scores.reshape(-1, 1), truth.reshape(-1, 1), query, at=3)


def regressor(random: Random, count: int, honest: bool) -> regression.Predictions:
    truth = random.normal(3, 2, (count, 2))
    noise = random.normal(0, 1, truth.shape) if honest else random.exponential(1, truth.shape)
    return regression.Predictions(truth + noise, truth)


def reader(random: Random, count: int, honest: bool) -> language_model.Predictions:
    """Files of very different lengths, of which some are harder."""
    tokens = np.ceil(random.lognormal(5, 0.7, count))
    hardness = random.gamma(20, 0.1, count) if honest else random.gamma(4, 0.5, count)
    right = random.binomial(tokens.astype(int), np.exp(-hardness) * 0.9 + 0.05).astype(float)
    return language_model.Predictions(tokens * hardness, right, tokens, np.ceil(tokens * 3.5), np.zeros(1))


def tagger(random: Random, count: int, honest: bool) -> tagging.Predictions:
    """Sequences of two to nine words, of which some are harder: the tokens of one are not independent."""
    labels = random.choice(4, (count, 9), p=[0.4, 0.2, 0.2, 0.2]).astype(np.int32)
    hardness = random.beta(2, 6 if honest else 4, (count, 1))
    tags = np.where(random.random(labels.shape) < hardness, random.integers(0, 4, labels.shape), labels)
    padding = np.arange(9) >= random.integers(2, 10, (count, 1))
    tags, labels = (np.where(padding, -1, each).astype(np.int32) for each in (tags, labels))
    nats = np.where(padding, 0, random.exponential(hardness, labels.shape)).astype(np.float32)
    return tagging.Predictions(tags, labels, ("O", "B-A", "I-A", "B-B"), nats)


MAKE: dict[str, Callable[[Random, int, bool], Any]] = {
    "classification": classifier,
    "multilabel": labeller,
    "anomaly": detector,
    "ranking": searcher,
    "regression": regressor,
    "language_model": reader,
    "tagging": tagger,
}


@lru_cache(maxsize=2)
def drawn(task: str, honest: bool) -> tuple[Any, list[Any]]:
    """All that a task's examples are drawn from, nearly, and data sets of them, for all metrics of the task."""
    random = np.random.default_rng(7)
    return MAKE[task](random, 300_000, honest), [MAKE[task](random, EXAMPLES, honest) for _ in range(SETS)]


def known(task: str) -> dict[str, Any]:
    return dict(judge_of(task).metrics)


@pytest.mark.parametrize("honest", [True, False], ids=["calibrated", "uncalibrated"])
@pytest.mark.parametrize(("task", "name"), [(task, name) for task in TASKS for name in TASKS[task].metrics])
def test_an_interval_covers_the_truth_as_often_as_it_says(task: str, name: str, honest: bool) -> None:
    metric, (everything, sets) = known(task)[name], drawn(task, honest)
    if not metric.resampled:
        measured = intervals(known(task), (name,), sets[0])[name]
        assert not isinstance(measured, Interval) and measured.as_json()["low"] is None
        return
    truth = metric(everything)
    bounds = [interval(metric, each) for each in sets]
    covered = np.mean([bound.low <= truth <= bound.high for bound in bounds])
    assert LEVEL - TOLERANCE <= covered < 1, covered
    assert all(bound.low < bound.value < bound.high for bound in bounds)


def beyond(share: float, sets: int) -> float:
    """Return how far a share may be off among so many sets: three standard errors."""
    return 3 * float(np.sqrt(share * (1 - share) / sets))


@pytest.mark.parametrize(
    ("task", "scene"),
    [(task, scene) for task, case in coverage.CASES.items() for scene in case.scenes if scene in PLACES],
)
def test_few_rare_and_grouped_examples_are_covered_or_marked_and_chance_is_rarely_more_than_noise(
    task: str, scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the table of docs/metrics.md has with 2,000 sets a cell."""
    monkeypatch.setattr(coverage, "POWER_AT", ())
    everything = coverage.CASES[task].draw(np.random.default_rng(0), scene, 100_000, (0.0,))[0]
    truths = {name: metric(everything) for name, metric in coverage.metrics_of(task, scene).items()}
    for count in PLACES[scene]:
        for name, cell in coverage.cells(task, scene, count, truths, FEW_SETS).items():
            about = f"{name}, {count} examples: {cell}"
            assert cell.false <= 0.06 + beyond(0.06, FEW_SETS), about
            assert cell.few > 0.5 or cell.covered >= 0.92 - beyond(0.92, FEW_SETS), about
            assert cell.few <= 0.5 or count == 20 or scene in ("rare", "edge", "clustered"), about


@pytest.mark.parametrize("name", ["average_precision", "recall", "f1", "mcc", "macro_f1"])
def test_what_one_or_no_positive_decides_is_noise(name: str) -> None:
    """Where there is none, the area under a curve is not defined; its difference is no evidence."""
    random, metric = np.random.default_rng(5), classification.METRICS[name]
    for positives in (0, 1, 2):
        labels = np.arange(200) < positives
        before, after = (
            metric.contributions(classification.Predictions.of(random.normal(0, 1, (200, 2)), labels)) for _ in range(2)
        )
        made = change(metric, before, after, 200)
        assert not made.more_than_noise or name in ("mcc", "macro_f1"), "these have 200 others, too"


def test_one_wrong_of_many_has_an_interval_as_wide_as_an_exact_one() -> None:
    values = np.ones((200, 1))
    values[7] = 0
    exact = stats.binomtest(199, 200).proportion_ci()
    found = ranking.METRICS["mrr"].estimate(values, None)
    low, high = found.ends(0.95)
    assert low <= exact.low * 1.001 and high >= exact.high * 0.9999 and found.method == "exact binomial"
    for end, p_value in ((low, found.p_at_most), (high, found.p_at_least)):
        assert p_value(end) == pytest.approx(0.025, rel=1e-3)


def test_a_loss_says_how_many_units_carry_it() -> None:
    random = np.random.default_rng(0)
    metric, few = classification.METRICS["loss"], np.full((500, 1), 1e-3)
    few[:4] = 3.0
    assert metric.estimate(few, None).units < 20
    assert metric.estimate(random.normal(0, 1, (100, 1)) ** 2, None).units == 100


def test_the_calibration_test_rejects_a_calibrated_model_as_often_as_it_says_and_another_nearly_always() -> None:
    random = np.random.default_rng(3)

    def p_values(honest: bool) -> np.ndarray:
        sets = [classifier(random, 400, honest) for _ in range(200)]
        return np.array([consistency_test(each.confidence, each.correct, 15, 200).p_value for each in sets])

    calibrated, too_sure = p_values(True), p_values(False)
    assert abs((calibrated < 0.05).mean() - 0.05) < 0.04, "wrongly rejected"
    assert abs((calibrated < 0.5).mean() - 0.5) < 0.12, "uniform"
    assert (too_sure < 0.05).mean() > 0.95, "power"


def test_noise_alone_explains_the_error_of_a_calibrated_model() -> None:
    predictions = classifier(np.random.default_rng(1), 5000, True)
    tested = consistency_test(predictions.confidence, predictions.correct, 15, 400)
    assert tested.error == pytest.approx(classification.METRICS["calibration_error"](predictions))
    assert 0 < tested.expected < 0.03 and abs(tested.error - tested.expected) < 0.01
    wrong = classifier(np.random.default_rng(1), 5000, False)
    assert consistency_test(wrong.confidence, wrong.correct, 15, 400).p_value == pytest.approx(1 / 401)
