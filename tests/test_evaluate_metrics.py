"""Metrics and intervals compared with reference implementations."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from tasks.config.task import TASKS
from tasks.evaluation import gates, select_metrics
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import interval, intervals
from tasks.evaluation.judging import compare
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.classification import METRICS, Predictions
from tasks.exporting.score import RawSplit


@pytest.fixture
def predictions():
    random = np.random.default_rng(5)
    labels = random.integers(0, 4, 300)
    logits = random.normal(0, 1.5, (300, 4)).astype("float32")
    logits[np.arange(300), labels] += 2
    return Predictions.of(logits, labels, 10)


def test_metrics_agree_with_scikit_learn(predictions):
    assert METRICS["accuracy"](predictions) == sklearn_metrics.accuracy_score(predictions.labels, predictions.predicted)
    expected = sklearn_metrics.log_loss(predictions.labels, predictions.probabilities, labels=range(4))
    assert METRICS["loss"](predictions) == pytest.approx(expected, rel=1e-12)


def test_calibration_error_is_the_weighted_gap_of_its_bins(predictions):
    edges = np.linspace(0, 1, 11)
    error = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (predictions.confidence >= low) & (predictions.confidence < high)
        if inside.any():
            error += inside.mean() * abs(predictions.confidence[inside].mean() - predictions.correct[inside].mean())
    assert METRICS["calibration_error"](predictions) == pytest.approx(error, rel=1e-12)


def test_intervals_repeat_and_hold_their_value(predictions):
    once, again = (intervals(METRICS, TASKS["classification"].metrics, predictions) for _ in range(2))
    assert once == again
    for name in ("accuracy", "loss"):
        assert once[name].low < once[name].value < once[name].high
    normal = 1.96 * np.sqrt(once["accuracy"].value * (1 - once["accuracy"].value) / 300)
    assert once["accuracy"].high - once["accuracy"].low == pytest.approx(2 * normal, rel=0.15)


def test_no_mistake_among_few_examples_is_not_taken_for_certainty():
    perfect = Predictions.of(np.eye(3, dtype="float32")[[0, 1, 2] * 5] * 9, np.array([0, 1, 2] * 5))
    bounds = interval(METRICS["accuracy"], perfect)
    assert (bounds.value, bounds.high) == (1.0, 1.0)
    assert bounds.low == pytest.approx(stats.beta.ppf(0.025, 15, 1))


def test_a_measured_value_that_is_no_number_never_passes():
    assert not gates.parity(float("nan"), 1.0, 1e-4).passed


def test_parity_is_a_share_of_the_largest_output_and_of_small_ones_a_share_of_1():
    assert gates.parity(0.02, 300_000.0, 1e-4).passed, "the last bits of a price"
    assert gates.parity(2e-5, 0.001, 1e-4).passed
    assert not gates.parity(2e-4, 0.5, 1e-4).passed


def test_primary_metric_is_always_measured():
    assert EvaluateConfig().primary_of("classification") == ("accuracy", True)
    assert select_metrics("classification", EvaluateConfig(metrics=("loss",))) == ("accuracy", "loss")
    by_f1 = EvaluateConfig(metrics=("accuracy",), primary="f1")
    assert select_metrics("classification", by_f1) == ("accuracy", "f1")


@pytest.mark.parametrize(
    "gate",
    [
        lambda value, limit: gates.measured("size", value, limit, ""),
        lambda value, limit: gates.parity(value, 1.0, limit),
        lambda value, limit: gates.latency(value, limit),
    ],
    ids=["size", "parity", "latency"],
)
def test_a_value_at_its_limit_passes_and_one_above_it_does_not(gate):
    assert gate(0.25, 0.25).verdict == gates.PASS
    assert gate(0.251, 0.25).verdict == gates.FAIL


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_what_a_worse_model_loses_is_above_0_whichever_way_its_metric_grows(task, tmp_path):
    random = np.random.default_rng(2)
    numbers = random.normal(0, 1, (60, 3)).astype("float32")
    features = {"numbers": {"dtype": "float32", "shape": [3]}}
    if task == "regression":
        truth = {"target": numbers[:, :1]}
        features["target"] = {"dtype": "float32", "shape": [1], "names": ["x"]}
        good, bad = {"outputs": numbers[:, :1] + 0.1}, {"outputs": numbers[:, :1] + 0.6}
        expected = 0.5
    else:
        labels = np.arange(60) % 2
        truth = {"label": labels}
        features["label"] = {"dtype": "int64", "shape": [], "classes": ["a", "b"]}
        right = np.eye(2, dtype="float32")[labels]
        good, bad = {"logits": right}, {"logits": np.concatenate([right[:45], 1 - right[45:]])}
        expected = 0.25
    own = make_judge(task, RawSplit("test", features, {"numbers": numbers, **truth}, tmp_path), EvaluateConfig())
    worse, better, same = (
        compare(task, own, *pair, EvaluateConfig()) for pair in ((good, bad), (bad, good), (good, good))
    )
    assert worse.loss == pytest.approx(expected, abs=1e-5) == -better.loss
    assert worse.lower - 1e-5 <= worse.loss <= worse.upper + 1e-5 and worse.lower > 0 > better.upper
    assert same.loss == 0 and same.agreement == 1
