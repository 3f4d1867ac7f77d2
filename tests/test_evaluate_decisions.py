"""Temperature and thresholds by themselves: against brute force, in predictions and in the code of a README."""

from __future__ import annotations

import contextlib
import io
from string import Template
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics as sklearn_metrics

from tasks.config.base import Conflict
from tasks.config.compose import validate
from tasks.errors import Failed, Refused
from tasks.evaluation import calibration, decisions
from tasks.evaluation.binary import Binary, choose, measured
from tasks.evaluation.config import EvaluateConfig, ThresholdConfig
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.classification import Predictions
from tasks.exporting.prediction import ANSWERS, decision_fields, predictions
from tasks.exporting.score import RawSplit


def drawn(count: int, sure: float, seed: int = 0, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are `sure` times too large, float32 [N, classes], and labels drawn from the right ones."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1.5, (count, classes))
    chances = np.exp(logits)
    labels = (chances.cumsum(1) / chances.sum(1, keepdims=True) < random.random((count, 1))).sum(1)
    return (logits * sure).astype(np.float32), labels


def judge_of(labels: np.ndarray, names: list[str], tmp_path: Any, config: EvaluateConfig | None = None) -> Any:
    features = {
        "numbers": {"dtype": "float32", "shape": [1]},
        "label": {"dtype": "int64", "shape": [], "classes": names},
    }
    arrays = {"numbers": np.zeros((len(labels), 1), np.float32), "label": labels}
    return make_judge("classification", RawSplit("validation", features, arrays, tmp_path), config or EvaluateConfig())


@pytest.mark.parametrize("sure", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_what_logits_are_too_large_by(sure: float, tmp_path: Any) -> None:
    logits, labels = drawn(20_000, sure, classes=3)
    judge = judge_of(labels, ["a", "b", "c"], tmp_path)
    assert calibration.fit(judge, Predictions.of(logits, labels)) == pytest.approx(sure, rel=0.03)


def binary(count: int, seed: int) -> Binary:
    logits, labels = drawn(count, 1.0, seed)
    return Binary(np.round(expit(logits[:, 1] - logits[:, 0]), 2), labels == 1)


GOALS: dict[str, Any] = {
    "f1": (ThresholdConfig(maximize="f1"), sklearn_metrics.f1_score),
    "balanced_accuracy": (ThresholdConfig(maximize="balanced_accuracy"), sklearn_metrics.balanced_accuracy_score),
    "mcc": (ThresholdConfig(maximize="mcc"), sklearn_metrics.matthews_corrcoef),
    "accuracy": (ThresholdConfig(maximize="accuracy"), sklearn_metrics.accuracy_score),
}


@pytest.mark.parametrize("goal", GOALS)
def test_the_threshold_is_as_good_as_the_best_of_all(goal: str) -> None:
    config, score = GOALS[goal]
    decision = binary(150, 3)
    threshold = choose("yes", decision, config)
    every = [score(decision.truth, decision.probabilities > at) for at in np.linspace(0.005, 0.995, 100)]
    assert score(decision.truth, decision.probabilities > threshold) == pytest.approx(max(every))


def test_a_required_precision_or_false_positive_rate_is_reached_with_the_highest_recall() -> None:
    decision = binary(2000, 4)
    at = choose("yes", decision, ThresholdConfig(recall_at_precision=0.9))
    decided = [decision.probabilities > each for each in np.linspace(0.005, 0.995, 100)]
    recalls = [
        sklearn_metrics.recall_score(decision.truth, each)
        for each in decided
        if each.any() and sklearn_metrics.precision_score(decision.truth, each) >= 0.9
    ]
    assert sklearn_metrics.recall_score(decision.truth, decision.probabilities > at) == pytest.approx(max(recalls))
    assert sklearn_metrics.precision_score(decision.truth, decision.probabilities > at) >= 0.9
    at = choose("yes", decision, ThresholdConfig(recall_at_false_positive_rate=0.05))
    assert 0.03 < (decision.probabilities > at)[~decision.truth].mean() <= 0.05


@pytest.mark.parametrize(
    ("truth", "goal", "expected"),
    [
        ((True, False, True), ThresholdConfig(maximize="f1"), 0.2),
        ((True, False, False), ThresholdConfig(maximize="accuracy"), 0.9),
        ((False, True, True), ThresholdConfig(recall_at_precision=0.99), 0.5),
        ((False, True, True), ThresholdConfig(recall_at_false_positive_rate=0.01), 0.5),
        ((False, False, True), ThresholdConfig(recall_at_false_positive_rate=0.5), 0.5),
    ],
)
def test_a_threshold_may_take_all_or_none_and_lies_between_those_that_it_parts(
    truth: tuple[bool, ...], goal: ThresholdConfig, expected: float
) -> None:
    """In the last case 0.5 and 0.7 find as many, within what is required, and the nearer one to 0.5 is taken."""
    decision = Binary(np.array([0.4, 0.6, 0.8]), np.array(truth))
    assert choose("yes", decision, goal) == pytest.approx(expected)


def test_a_threshold_that_takes_nobody_fulfils_no_requirement() -> None:
    """Of nobody none is wrong, whatever is required."""
    decision = Binary(np.array([0.4, 0.6, 0.8]), np.array([False, True, False]))
    with pytest.raises(Failed, match="yes reaches false positive rate 0.5 on the validation split, not 0.1"):
        choose("yes", decision, ThresholdConfig(recall_at_false_positive_rate=0.1))


def test_a_threshold_that_cannot_be_chosen_says_why() -> None:
    random = np.random.default_rng(0)
    noise = Binary(random.random(500), random.random(500) < 0.3)
    with pytest.raises(Failed, match=r"yes reaches precision 0\.\d+ on the validation split, not 0.999"):
        choose("yes", noise, ThresholdConfig(recall_at_precision=0.999))
    with pytest.raises(Failed, match="none of 500 validation examples are yes"):
        choose("yes", Binary(noise.probabilities, noise.truth & False), ThresholdConfig(maximize="f1"))


def test_more_than_two_classes_have_no_threshold(tmp_path: Any) -> None:
    logits, labels = drawn(100, 1.0, classes=3)
    judge = judge_of(labels, ["a", "b", "c"], tmp_path)
    config = EvaluateConfig(threshold=ThresholdConfig(maximize="f1"))
    with pytest.raises(Failed, match="evaluate.threshold: 3 classes"):
        decisions.fit(judge, Predictions.of(logits, labels), config)
    with pytest.raises(Failed, match="evaluate.positive: d; the classes are a, b, c"):
        judge_of(labels, ["a", "b", "c"], tmp_path, EvaluateConfig(positive="d"))


def test_settings_that_would_be_ignored_are_refused() -> None:
    whole = {"name": "n", "train": {"steps": 1}}
    for evaluate, says in (
        ({"threshold": {}}, "needs exactly one of maximize"),
        ({"threshold": {"maximize": "f1", "recall_at_precision": 0.9}}, "needs exactly one of maximize"),
        ({"primary": "calibration_error"}, "decides by an interval"),
        ({"primary": "rmse"}, "decides by an interval, and those of classification are accuracy"),
        ({"lower_is_better": ["cost"]}, "names own metrics, which are none"),
        ({"robustness": ["nois"]}, "must be one of 'noise', 'blur'"),
    ):
        with pytest.raises(Refused, match=says):
            validate({**whole, "evaluate": evaluate})
    with pytest.raises(Conflict, match="evaluate.calibrate"):
        EvaluateConfig(calibrate="temperature").fit("regression")
    with pytest.raises(Conflict, match="evaluate.robustness"):
        EvaluateConfig.model_validate({"robustness": ["typos"]}).fit("language_model")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("task", ["classification", "multilabel", "anomaly"])
def test_the_code_of_a_readme_decides_as_predictions_do(task: str, tmp_path: Any) -> None:
    outputs = np.random.default_rng(2).normal(0, 2, (12, 2)).astype(np.float32)
    names = ["no", "yes"]
    transform: dict[str, Any] = {"temperature": 1.7, "classes": names, "task": task}
    transform["thresholds"] = {"yes": 0.2} if task == "classification" else {"no": 0.7, "yes": 0.2}
    if task != "classification":
        transform |= {"targets": names, "classes": []}
    (tmp_path / "names.json").write_text('{"classes": ["no", "yes"], "targets": ["no", "yes"]}')
    code = Template(ANSWERS[task].code).substitute(decision_fields(transform) | {"file": tmp_path / "names.json"})
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec("import json\n" + code, {"np": np, "outputs": outputs})
    rows = predictions(outputs, transform, {})
    if task == "classification":
        expected = [f"{row['class']}: {row['confidence']:.3f}" for row in rows]
        usual = predictions(outputs, {"classes": names, "task": task}, {})
        assert [row["class"] for row in rows] != [row["class"] for row in usual], "or the threshold shows nothing"
    else:
        expected = [
            f"{', '.join(f'{name}: {value:.3f}' for name, value in row['labels'].items())}; "
            f"predicted: {', '.join(row['predicted']) or 'none'}"
            for row in rows
        ]
    assert printed.getvalue().splitlines() == expected


def test_measures_are_those_of_scikit_learn() -> None:
    decision = binary(300, 9)
    [row], flat = measured({"yes": decision}, {"yes": 0.4}, None)
    decided = decision.probabilities > 0.4
    for name in ("precision", "recall", "f1", "accuracy", "balanced_accuracy"):
        score = getattr(sklearn_metrics, f"{name}_score")(decision.truth, decided)
        assert row["at_threshold"][name]["value"] == pytest.approx(score) == flat[f"threshold/{name}"]
    assert flat["threshold/mcc"] == pytest.approx(sklearn_metrics.matthews_corrcoef(decision.truth, decided))


def test_of_several_labels_the_mean_f1_is_reported_each_by_its_threshold() -> None:
    decided = {"a": binary(300, 9), "b": binary(300, 10)}
    rows, flat = measured(decided, {"a": 0.4, "b": 0.7}, None)
    scores = [
        sklearn_metrics.f1_score(each.truth, each.probabilities > at)
        for each, at in zip(decided.values(), (0.4, 0.7), strict=True)
    ]
    assert [row["decision"] for row in rows] == ["a", "b"] and flat == {
        "threshold/macro_f1": pytest.approx(np.mean(scores))
    }
