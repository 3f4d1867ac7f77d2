"""Classification: one of several classes for each example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tasks.config.task import LABEL
from tasks.errors import Failed
from tasks.evaluation import binary, pictures
from tasks.evaluation.binary import USUAL, Binary
from tasks.evaluation.calibration import consistency_test, error_of, gaps
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import SMALLEST, Judge, Kept
from tasks.evaluation.metrics import Means, Metric, Score, Share, WithoutInterval, mean
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Floats
from tasks.models.features import classes

MOST_CLASSES = 100
"""Classes that are tried as the only answer: the most frequent ones."""


@dataclass(frozen=True)
class Predictions:
    """A classifier's outputs for the examples of a split, and their labels."""

    log_probabilities: Floats
    """[N, classes]."""

    labels: npt.NDArray[np.int64]
    """int64 [N]."""

    bins: int = 15
    """Number of equal-width confidence bins of the calibration error."""

    positive: int = 1
    """The number of the class that is called positive."""

    threshold: float = USUAL
    """The probability of the positive class above which an example is taken for one."""

    @classmethod
    def of(cls, logits: npt.NDArray, labels: npt.NDArray, *others: Any) -> Predictions:
        """Create from logits [N, classes], labels [N], and the other fields; the softmax is computed in float64."""
        return cls(log_softmax(logits.astype(np.float64), axis=-1), labels.astype(np.int64), *others)

    def scaled(self, temperature: float) -> Predictions:
        """Return the predictions of logits divided by the temperature."""
        return replace(self, log_probabilities=log_softmax(self.log_probabilities / temperature, axis=-1))

    @property
    def probabilities(self) -> Floats:
        """[N, classes]."""
        return np.exp(self.log_probabilities)

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """The most probable class of each example, int64 [N]."""
        return self.log_probabilities.argmax(axis=-1)

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether the predicted class is the label, bool [N]."""
        return self.predicted == self.labels

    @property
    def confidence(self) -> Floats:
        """The probability of the predicted class, float64 [N]."""
        return np.exp(self.log_probabilities.max(axis=-1))


def accuracy(predictions: Predictions) -> Floats:
    """Return 1 for each example whose most probable class is the label, else 0, [N, 1]."""
    return predictions.correct[:, None].astype(np.float64)


def loss(predictions: Predictions) -> Floats:
    """Return the cross-entropy in nats, [N, 1], without label smoothing and class weights."""
    return -np.take_along_axis(predictions.log_probabilities, predictions.labels[:, None], axis=-1)


def calibration_gaps(predictions: Predictions) -> Floats:
    """Return confidence minus correctness by confidence bin, [N, bins]."""
    return gaps(predictions.confidence, predictions.correct, predictions.bins)


def counts(predictions: Predictions) -> Floats:
    """Return [N, 3 * classes]: of each class whether an example is rightly of it, predicted, and true."""
    numbers = np.arange(predictions.log_probabilities.shape[1])
    predicted, true = predictions.predicted[:, None] == numbers, predictions.labels[:, None] == numbers
    return np.concatenate([predicted & true, predicted, true], axis=1).astype(np.float64)


def of_classes(sums: Floats) -> Floats:
    """Return the examples of units by class or label, [units, classes], from sums of `counts`."""
    return np.split(sums, 3, axis=-1)[2]


def macro_f1(means: Floats) -> Floats:
    """Return the mean F1 [...] of the classes that are predicted or true, from means of `counts`, as scikit-learn
    does."""
    right, predicted, true = np.split(means, 3, axis=-1)
    both = predicted + true
    f1 = np.divide(2 * right, both, out=np.zeros_like(both), where=both > 0)
    total: Floats = f1.sum(axis=-1) / np.maximum((both > 0).sum(axis=-1), 1)
    return total


def mean_recall(means: Floats) -> Floats:
    """Return the mean recall [...] of the classes that are true, from means of `counts`: the balanced accuracy."""
    right, _, true = np.split(means, 3, axis=-1)
    recalls = np.divide(right, true, out=np.zeros_like(true), where=true > 0)
    total: Floats = recalls.sum(axis=-1) / np.maximum((true > 0).sum(axis=-1), 1)
    return total


def positive_of(predictions: Predictions) -> Binary:
    """Return the decision whether an example is of the positive class."""
    return Binary(predictions.probabilities[:, predictions.positive], predictions.labels == predictions.positive)


def decided(predictions: Predictions) -> Floats:
    """Return the `binary.counts` of that decision, [N, 4]."""
    return binary.counts(positive_of(predictions), predictions.threshold)


def scored(predictions: Predictions) -> Floats:
    """Return how the log-odds of the positive class order the examples, and 1 of a positive or 0, [N, 2]."""
    ours = predictions.log_probabilities[:, predictions.positive]
    others = np.delete(predictions.log_probabilities, predictions.positive, axis=1)
    truth = predictions.labels == predictions.positive
    return np.stack([ours - logsumexp(others, axis=1), truth], axis=1).astype(np.float64)


DECIDED = ("precision", "recall", "f1", "mcc")
OF_POSITIVE: dict[str, Metric] = {
    **{
        name: metric
        for name, metric in binary.measures(decided).items()
        if name in ("precision", "recall", "f1", "mcc")
    },
    **binary.ordered(scored),
}
"""The metrics that there are where one class is called positive."""

METRICS: dict[str, Metric] = {
    "accuracy": Share(accuracy),
    "balanced_accuracy": Score(counts, mean_recall, needs=of_classes, averaged=True),
    "macro_f1": Score(counts, macro_f1, needs=of_classes, averaged=True),
    **OF_POSITIVE,
    "loss": Means(loss, mean),
    "calibration_error": WithoutInterval(calibration_gaps, error_of),
}
"""By the names of `evaluate.metrics`."""


class ClassificationJudge(Judge):
    """Judges a classifier."""

    task = "classification"
    metrics = METRICS
    saved = "logits"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.names = classes(split.features)
        self.labels = np.asarray(split.arrays[LABEL])
        self.examples = len(self.labels)
        self.outputs = len(self.names)
        self.positive = self._positive(config)
        left_out = OF_POSITIVE if self.positive is None else {}
        self.metrics = {name: each for name, each in METRICS.items() if name not in left_out}
        if asked := [name for name in (config.primary, *(config.metrics or ())) if name in left_out]:
            rule = f"is of one class against the others, and there are {len(self.names)}"
            raise Failed("evaluate.metrics", asked[0], rule, "name the class in evaluate.positive")

    def _positive(self, config: EvaluateConfig) -> int | None:
        """Return the number of the positive class; None where none of more than two is named."""
        if config.positive is None:
            return 1 if len(self.names) == 2 else None
        if config.positive not in self.names:
            rule = f"the classes are {', '.join(self.names)}"
            raise Failed("evaluate.positive", config.positive, rule, "name one of them")
        return self.names.index(config.positive)

    @property
    def targets(self) -> npt.NDArray[Any]:
        """The labels."""
        return self.labels

    @property
    def baselines(self) -> dict[str, float]:
        """Accuracy of always predicting the most frequent label of these examples."""
        return {"majority_accuracy": float(np.bincount(self.labels).max() / len(self.labels))}

    def constants(self, predictions: Predictions) -> Iterator[Predictions]:
        """Yield the frequencies of the classes, of which the most frequent one is the likeliest, and each alone."""
        counts, shape = np.bincount(predictions.labels, minlength=self.outputs), predictions.log_probabilities.shape
        shares = np.maximum(counts / counts.sum(), SMALLEST)
        yield replace(predictions, log_probabilities=np.broadcast_to(np.log(shares), shape))
        for number in np.argsort(-counts, kind="stable")[:MOST_CLASSES]:
            sure = np.full(shape, np.log(SMALLEST))
            sure[:, number] = 0.0
            yield replace(predictions, log_probabilities=sure)

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the logits with the labels."""
        return Predictions.of(kept["logits"], self.labels, self.config.bins, self.positive or 0, self.threshold)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the most probable classes, [N]."""
        return kept["logits"].argmax(axis=-1)

    def binary(self, predictions: Predictions) -> dict[str, Binary]:
        """Return the only decision of two classes, by the name of the positive one."""
        return {self.names[predictions.positive]: positive_of(predictions)} if len(self.names) == 2 else {}

    def figures(self, predictions: Predictions) -> dict[str, float]:
        """Return the calibration test."""
        calibration = consistency_test(
            predictions.confidence, predictions.correct, predictions.bins, self.config.resamples
        )
        return {"calibration_error/expected": calibration.expected, "calibration_error/p_value": calibration.p_value}

    def details(self, predictions: Predictions) -> dict[str, Any]:
        """Return precision, recall and F1 by class, the confusion matrix, and the most confidently wrong examples."""
        rows = most_wrong(predictions, self.config.most_wrong)
        keys = self.split.keys(rows)
        return {
            "classes": by_class(predictions.labels, predictions.predicted, self.names),
            "confusion": confusion_matrix(
                predictions.labels, predictions.predicted, labels=range(len(self.names))
            ).tolist(),
            "most_wrong": [_wrong(predictions, self.names, int(row), key) for row, key in zip(rows, keys, strict=True)],
        }

    def slices(self, predictions: Predictions) -> dict[str, npt.NDArray[np.bool_]]:
        """Return a mask of the examples of each class."""
        return {f"label {name}": predictions.labels == number for number, name in enumerate(self.names)}

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot confusion matrix, reliability, precision-recall and ROC curves; of images the most wrong examples."""
        title, wrong = self.split.name, details["most_wrong"]
        drawn = {
            "confusion": pictures.confusion(predictions.labels, predictions.predicted, self.names, title),
            "reliability": pictures.reliability(predictions.confidence, predictions.correct, predictions.bins, title),
            "curves": pictures.curves(self._orders(predictions), title),
        }
        shown = self.inputs[np.array([row["row"] for row in wrong], np.int64)]
        images = [values for values in shown.values() if values.ndim == 4 and values.dtype == np.uint8]
        if wrong and images:
            drawn["most_wrong"] = pictures.most_wrong(images[0], wrong, f"{title}: most confidently wrong")
        return drawn

    def _orders(self, predictions: Predictions) -> dict[str, tuple[Floats, Floats]]:
        """Return how the examples are ordered by each class, and which are of it; of two classes by the positive one,
        as the other has the same order backwards."""
        numbers = range(len(self.names)) if len(self.names) > 2 else [predictions.positive]
        columns = {self.names[number]: scored(replace(predictions, positive=number)) for number in numbers}
        return {name: (each[:, 0], each[:, 1]) for name, each in columns.items()}


def most_wrong(predictions: Predictions, most: int) -> npt.NDArray[np.int64]:
    """Return the wrongly predicted rows, the most confident first, ties by row."""
    rows = np.flatnonzero(~predictions.correct)
    return rows[np.lexsort((rows, -predictions.confidence[rows]))][:most]


def by_class(labels: npt.NDArray, predicted: npt.NDArray, names: list[str]) -> list[dict[str, Any]]:
    """Return precision, recall, F1 (None where undefined) and the number of examples of each class."""
    columns = precision_recall_fscore_support(labels, predicted, labels=range(len(names)), zero_division=np.nan)
    rows = zip(names, *columns, strict=True)
    return [
        {"class": name, "precision": _or_none(p), "recall": _or_none(r), "f1": _or_none(f), "support": int(support)}
        for name, p, r, f, support in rows
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _wrong(predictions: Predictions, names: list[str], row: int, key: str) -> dict[str, Any]:
    return {
        "row": row,
        "key": key,
        "label": names[predictions.labels[row]],
        "predicted": names[predictions.predicted[row]],
        "confidence": float(predictions.confidence[row]),
    }
