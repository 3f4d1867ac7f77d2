"""Classification: one class of several for each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from tasks.config import EvaluateConfig
from tasks.evaluation import pictures
from tasks.evaluation.calibration import consistency, error_of, gaps
from tasks.evaluation.judging import Kept, Split
from tasks.evaluation.metrics import Floats, Metric, mean
from tasks.models.features import LABEL, classes, fed


@dataclass(frozen=True)
class Answers:
    """What a classifier said, and what was true."""

    log_probabilities: Floats
    """[N, classes]."""

    labels: npt.NDArray[np.int64]
    """[N]."""

    bins: int = 15
    """Equal-width confidence bins of the calibration error."""

    @classmethod
    def of(cls, logits: npt.NDArray, labels: npt.NDArray, bins: int = 15) -> Answers:
        """From logits [N, classes] and labels [N]; the softmax is taken in float64."""
        return cls(log_softmax(logits.astype(np.float64), axis=-1), labels.astype(np.int64), bins)

    @property
    def probabilities(self) -> Floats:
        """[N, classes]."""
        return np.exp(self.log_probabilities)

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        """The most probable class of each example, [N]."""
        return self.log_probabilities.argmax(axis=-1)

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether that is the label, [N]."""
        return self.predicted == self.labels

    @property
    def confidence(self) -> Floats:
        """The probability of the predicted class, [N]."""
        return np.exp(self.log_probabilities.max(axis=-1))


def accuracy(answers: Answers) -> Floats:
    """Share of examples whose most probable class is the label."""
    return answers.correct[:, None].astype(np.float64)


def loss(answers: Answers) -> Floats:
    """Cross-entropy in nats, straight from the logits; without the smoothing and class weights of a training."""
    return -np.take_along_axis(answers.log_probabilities, answers.labels[:, None], axis=-1)


def calibration_gaps(answers: Answers) -> Floats:
    """Confidence minus correctness by confidence bin, [N, bins]."""
    return gaps(answers.confidence, answers.correct, answers.bins)


METRICS = {
    "accuracy": Metric(accuracy, mean, share=True),
    "loss": Metric(loss, mean),
    "calibration_error": Metric(calibration_gaps, error_of, resampled=False),
}
"""By the names that `evaluate.metrics` knows."""


class Judge:
    """As `tasks.evaluation.judging.Judge` says."""

    metrics = METRICS
    saved = "logits"
    baselines: dict[str, float] = {}

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        self.split, self.config = split, config
        self.names = classes(split.features)
        self.inputs = fed(split.features, split.arrays)
        self.labels = np.asarray(split.arrays[LABEL])
        self.examples = len(self.labels)
        self.outputs = len(self.names)

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """The logits, whole."""
        return {"logits": outputs}

    def answers(self, kept: Kept) -> Answers:
        """What it said, beside what was true."""
        return Answers.of(kept["logits"], self.labels, self.config.bins)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """The most probable classes."""
        return kept["logits"].argmax(axis=-1)

    def figures(self, answers: Answers) -> dict[str, float]:
        """The macro-F1, the share of the most frequent label, and the test of calibration."""
        labels, predicted = answers.labels, answers.predicted
        present = np.union1d(labels, predicted)
        tested = consistency(answers.confidence, answers.correct, answers.bins, self.config.resamples)
        return {
            "macro_f1": float(f1_score(labels, predicted, labels=present, average="macro", zero_division=0)),
            "majority_share": float(np.bincount(labels).max() / len(labels)),
            "calibration_error/expected": tested.expected,
            "calibration_error/p_value": tested.p_value,
        }

    def details(self, answers: Answers) -> dict[str, Any]:
        """Precision, recall and F1 by class, the confusion matrix, the most confidently wrong examples."""
        rows = most_wrong(answers, self.config.most_wrong)
        keys = self.split.keys(rows)
        return {
            "classes": by_class(answers, self.names),
            "confusion": confusion_matrix(answers.labels, answers.predicted, labels=range(len(self.names))).tolist(),
            "most_wrong": [_wrong(answers, self.names, int(row), key) for row, key in zip(rows, keys, strict=True)],
        }

    def slices(self, answers: Answers) -> dict[str, npt.NDArray[np.bool_]]:
        """The examples of each class."""
        return {f"label {name}": answers.labels == number for number, name in enumerate(self.names)}

    def pictures(self, answers: Answers, details: dict[str, Any]) -> dict[str, bytes]:
        """Confusion, reliability, curves, and the most wrong examples where there are any and they are images."""
        title, wrong = self.split.name, details["most_wrong"]
        drawn = {
            "confusion": pictures.confusion(answers.labels, answers.predicted, self.names, title),
            "reliability": pictures.reliability(answers.confidence, answers.correct, answers.bins, title),
            "curves": pictures.curves(answers.labels, answers.probabilities, self.names, title),
        }
        images = np.asarray(self.inputs[np.array([row["row"] for row in wrong], np.int64)])
        if wrong and images.ndim == 4 and images.dtype == np.uint8:
            drawn["most_wrong"] = pictures.most_wrong(images, wrong, f"{title}: most confidently wrong")
        return drawn

    def show(self, call: Any) -> dict[str, Any]:
        """Nothing but numbers and pictures."""
        return {}


def most_wrong(answers: Answers, most: int) -> npt.NDArray[np.int64]:
    """Rows that were answered wrongly, the most confident first, ties by row."""
    rows = np.flatnonzero(~answers.correct)
    return rows[np.lexsort((rows, -answers.confidence[rows]))][:most]


def by_class(answers: Answers, names: list[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, None where there is nothing to take a share of; its examples."""
    columns = precision_recall_fscore_support(
        answers.labels, answers.predicted, labels=range(len(names)), zero_division=np.nan
    )
    rows = zip(names, *columns, strict=True)
    return [
        {"class": name, "precision": _or_none(p), "recall": _or_none(r), "f1": _or_none(f), "support": int(support)}
        for name, p, r, f, support in rows
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _wrong(answers: Answers, names: list[str], row: int, key: str) -> dict[str, Any]:
    return {
        "row": row,
        "key": key,
        "label": names[answers.labels[row]],
        "predicted": names[answers.predicted[row]],
        "confidence": float(answers.confidence[row]),
    }
