"""Classification: one of several classes for each example."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from tasks.config import EvaluateConfig
from tasks.config.task import LABEL
from tasks.errors import Failed
from tasks.evaluation import pictures
from tasks.evaluation.calibration import consistency_test, error_of, gaps
from tasks.evaluation.judging import Kept
from tasks.evaluation.metrics import Floats, Metric, mean
from tasks.evaluation.splits import Split
from tasks.evaluation.thresholds import Binary
from tasks.models.features import classes, input_arrays


@dataclass(frozen=True)
class Predictions:
    """A classifier's outputs for the examples of a split, and their labels."""

    log_probabilities: Floats
    """[N, classes]."""

    labels: npt.NDArray[np.int64]
    """int64 [N]."""

    bins: int = 15
    """Number of equal-width confidence bins of the calibration error."""

    @classmethod
    def of(cls, logits: npt.NDArray, labels: npt.NDArray, bins: int = 15) -> Predictions:
        """Create from logits [N, classes] and labels [N]; the softmax is computed in float64."""
        return cls(log_softmax(logits.astype(np.float64), axis=-1), labels.astype(np.int64), bins)

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


METRICS = {
    "accuracy": Metric(accuracy, mean, share=True),
    "loss": Metric(loss, mean),
    "calibration_error": Metric(calibration_gaps, error_of, resampled=False),
}
"""By the names of `evaluate.metrics`."""


class Judge:
    """Implements `tasks.evaluation.judging.Judge`."""

    metrics = METRICS
    saved = "logits"
    example_of = None

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        self.split, self.config = split, config
        self.names = classes(split.features)
        self.inputs = input_arrays(split.features, split.arrays)
        self.labels = np.asarray(split.arrays[LABEL])
        self.examples = len(self.labels)
        self.outputs = len(self.names)

    @property
    def baselines(self) -> dict[str, float]:
        """Accuracy of always predicting the most frequent label of these examples."""
        return {"majority_accuracy": float(np.bincount(self.labels).max() / len(self.labels))}

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """Keep the logits."""
        return {"logits": outputs}

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the logits with the labels."""
        return Predictions.of(kept["logits"], self.labels, self.config.bins)

    def extents(self, predictions: Predictions) -> Floats:
        """Return 1 for each example: all of it is scored."""
        return np.ones(self.examples)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the most probable classes, [N]."""
        return kept["logits"].argmax(axis=-1)

    def binary(self, predictions: Predictions, positive: str | None) -> dict[str, Binary]:
        """Return the only decision of two classes, by the name of the positive one (the second for None)."""
        if len(self.names) != 2:
            if positive is not None:
                rule = f"names the positive class of two, and there are {len(self.names)}"
                raise Failed("evaluate.positive", positive, rule, "leave it out")
            return {}
        name = self.names[1] if positive is None else positive
        if name not in self.names:
            raise Failed("evaluate.positive", name, f"the classes are {', '.join(self.names)}", "name one of them")
        number = self.names.index(name)
        return {name: Binary(predictions.probabilities[:, number], predictions.labels == number)}

    def figures(self, predictions: Predictions) -> dict[str, float]:
        """Return the macro-F1 and the calibration test."""
        labels, predicted = predictions.labels, predictions.predicted
        present = np.union1d(labels, predicted)
        calibration = consistency_test(
            predictions.confidence, predictions.correct, predictions.bins, self.config.resamples
        )
        return {
            "macro_f1": float(f1_score(labels, predicted, labels=present, average="macro", zero_division=0)),
            "calibration_error/expected": calibration.expected,
            "calibration_error/p_value": calibration.p_value,
        }

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
            "curves": pictures.curves(predictions.labels, predictions.probabilities, self.names, title),
        }
        shown = self.inputs[np.array([row["row"] for row in wrong], np.int64)]
        images = [values for values in shown.values() if values.ndim == 4 and values.dtype == np.uint8]
        if wrong and images:
            drawn["most_wrong"] = pictures.most_wrong(images[0], wrong, f"{title}: most confidently wrong")
        return drawn

    def show(self, call: Any) -> dict[str, Any]:
        """Return nothing: a classifier generates nothing."""
        return {}


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
