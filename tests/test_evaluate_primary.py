"""The metric that decides: those of classes and of a positive class, of a fitted threshold, of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics as sklearn_metrics

from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import gating
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.judging import compare, contributions_of, metric_of
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.classification import METRICS, OF_POSITIVE, ClassificationJudge, Predictions
from tasks.exporting.score import RawSplit

SKLEARN: dict[str, Callable[..., float]] = {
    "precision": sklearn_metrics.precision_score,
    "recall": sklearn_metrics.recall_score,
    "f1": sklearn_metrics.f1_score,
    "mcc": sklearn_metrics.matthews_corrcoef,
}


def judge_of(classes: int, config: EvaluateConfig, tmp_path: Path, count: int = 300) -> tuple[Any, np.ndarray]:
    """A judge of so many classes, the last ones rarer, and logits that know a little."""
    random = np.random.default_rng(4)
    shares = np.arange(classes, 0, -1) ** 2.0
    labels = random.choice(classes, count, p=shares / shares.sum())
    logits = random.normal(0, 1, (count, classes)).astype(np.float32)
    logits[np.arange(count), labels] += 1
    names = [f"c{number}" for number in range(classes)]
    label = {"dtype": "int64", "shape": [], "classes": names}
    features = {"x": {"dtype": "float32", "shape": [1]}, "label": label}
    arrays = {"x": np.zeros((count, 1), np.float32), "label": labels}
    return make_judge("classification", RawSplit("test", features, arrays, tmp_path), config), logits


@pytest.mark.parametrize(("classes", "positive"), [(2, None), (2, "c0"), (4, "c2")])
def test_metrics_of_a_positive_class_are_those_of_scikit_learn(
    classes: int, positive: str | None, tmp_path: Path
) -> None:
    judge, logits = judge_of(classes, EvaluateConfig(positive=positive), tmp_path)
    number = 1 if positive is None else int(positive[1])
    predictions = judge.predictions({"logits": logits})
    truth, chance = judge.labels == number, predictions.probabilities[:, number]
    for name, expected in SKLEARN.items():
        assert judge.metrics[name](predictions) == pytest.approx(expected(truth, chance > 0.5)), name
    found = {name: judge.metrics[name](predictions) for name in ("average_precision", "roc_auc")}
    assert found == pytest.approx(
        {
            "average_precision": sklearn_metrics.average_precision_score(truth, chance),
            "roc_auc": sklearn_metrics.roc_auc_score(truth, chance),
        }
    )
    balanced = sklearn_metrics.balanced_accuracy_score(judge.labels, predictions.predicted)
    assert judge.metrics["balanced_accuracy"](predictions) == pytest.approx(balanced)


def test_without_a_positive_class_several_have_none_of_its_metrics(tmp_path: Path) -> None:
    judge, _ = judge_of(4, EvaluateConfig(), tmp_path)
    assert set(METRICS) - set(judge.metrics) == set(OF_POSITIVE)
    for config in (EvaluateConfig(primary="f1"), EvaluateConfig(metrics=("f1",))):
        with pytest.raises(Failed, match="f1; is of one class against the others, and there are 4; name the class in"):
            judge_of(4, config, tmp_path)


def test_f1_is_of_the_threshold_that_the_export_decides_by(tmp_path: Path) -> None:
    """Fitted to calibrated probabilities: without the temperature it is another number, and the same decision."""
    judge, logits = judge_of(2, EvaluateConfig(), tmp_path)
    for temperature in (None, 2.5):
        decision = Decision(temperature, {"c1": 0.3})
        decision.settle(judge)
        logodds = (logits[:, 1] - logits[:, 0]).astype(np.float64) / (temperature or 1.0)
        taken = expit(logodds) > 0.3
        f1 = judge.metrics["f1"](judge.predictions({"logits": logits}))
        assert f1 == pytest.approx(sklearn_metrics.f1_score(judge.labels == 1, taken))
    assert Decision.read(tmp_path) == Decision()
    (tmp_path / "decision.json").write_text('{"temperature": 2.5, "thresholds": {"c1": 0.3}}')
    assert Decision.read(tmp_path) == Decision(2.5, {"c1": 0.3})


def test_a_metric_of_the_users_decides_in_its_direction(tmp_path: Path) -> None:
    """The loss of a variant, and the gate's default metric, are those of `evaluate.primary`."""
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef cost(labels, logits):\n    return np.where(logits.argmax(1) == labels, 0.0, 5.0)\n"
    )
    own = {"own_metrics": {"cost": "mine:cost"}, "folder": str(tmp_path), "lower_is_better": ("cost",)}
    config = EvaluateConfig(primary="cost", **own)
    judge, logits = judge_of(3, config, tmp_path)
    worse = logits + np.random.default_rng(0).normal(0, 1, logits.shape).astype(np.float32)
    lost = compare("classification", judge, {"logits": logits}, {"logits": worse}, config)
    wrong = [float((each.argmax(1) != judge.labels).mean()) for each in (logits, worse)]
    assert lost.metric == "cost" and lost.loss == pytest.approx(5 * (wrong[1] - wrong[0])) and lost.loss > 0
    assert lost.lower < lost.loss < lost.upper
    values = contributions_of(judge, {"logits": logits}, config)
    assert metric_of(judge, "cost").of(values["cost"]) == pytest.approx(5 * wrong[0])
    assert "cost" not in contributions_of(judge, {"logits": logits}, EvaluateConfig(**own)), "it decides nothing there"
    subject = gating.Subject("classification", config.primary_of("classification"), values, values, "float")
    gate: Any = SimpleNamespace(metric=None, label="quality")
    assert subject.metric(gate)[::2] == ("cost", -1)
    assert subject.metric(SimpleNamespace(metric="accuracy", label=""))[::2] == ("accuracy", 1)  # type: ignore[arg-type]


def test_a_slice_of_one_kind_has_no_order_of_scores() -> None:
    labels = np.array([0, 0, 1, 1, 1])
    predictions = Predictions.of(np.random.default_rng(0).normal(0, 1, (5, 2)), labels)
    metric = METRICS["roc_auc"]
    contributions = metric.contributions(predictions)
    assert np.isnan(metric.of(contributions[labels == 1])) and 0 <= metric.of(contributions) <= 1


def test_the_judge_of_classes_has_all_metrics_of_the_task() -> None:
    assert set(METRICS) == set(TASKS["classification"].metrics) and ClassificationJudge.saved == "logits"
