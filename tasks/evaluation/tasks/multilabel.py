"""Multilabel classification: any number of labels for each example; and anomaly detection, by one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from scipy.special import expit, logit

from tasks.config.task import TARGET
from tasks.errors import Failed
from tasks.evaluation import binary, pictures
from tasks.evaluation.binary import Binary
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import SMALLEST, Judge, Kept, share_or_none
from tasks.evaluation.metrics import Means, Metric, Score, mean
from tasks.evaluation.pictures import MUTED, WARM, picture
from tasks.evaluation.splits import Split
from tasks.evaluation.tasks.classification import of_classes
from tasks.evaluation.units import Floats
from tasks.models.features import targets

BINS = 20
MANY = 12
"""Number of labels that are plotted."""


@dataclass(frozen=True)
class Predictions:
    """Logits float64 and true labels bool, both [N, labels]."""

    logits: Floats
    truth: npt.NDArray[np.bool_]

    def scaled(self, temperature: float) -> Predictions:
        """Return the predictions of logits divided by the temperature."""
        return replace(self, logits=self.logits / temperature)

    @property
    def predicted(self) -> npt.NDArray[np.bool_]:
        """Whether each label is predicted (logit above 0), bool [N, labels]."""
        return self.logits > 0


def counts(predictions: Predictions) -> Floats:
    """Return [N, 3 * labels]: for each label whether it is a true positive, predicted, and true."""
    true_positives = predictions.predicted & predictions.truth
    return np.concatenate([true_positives, predictions.predicted, predictions.truth], axis=-1).astype(np.float64)


def f1(means: Floats, micro: bool) -> Floats:
    """Return the micro or macro F1 [...] from means of `counts`; a label neither predicted nor true counts as 0."""
    true_positives, predicted, truth = np.split(means, 3, axis=-1)
    if micro:
        true_positives, predicted, truth = (
            part.sum(axis=-1, keepdims=True) for part in (true_positives, predicted, truth)
        )
    both = predicted + truth
    return np.divide(2 * true_positives, both, out=np.zeros_like(both), where=both > 0).mean(axis=-1)


def of_any_label(sums: Floats) -> Floats:
    """Return the true labels of units, [units, 1], from sums of `counts`."""
    return of_classes(sums).sum(axis=-1, keepdims=True)


def label_accuracy(predictions: Predictions) -> Floats:
    """Return the share of an example's labels that are predicted correctly, [N, 1]."""
    return (predictions.predicted == predictions.truth).mean(axis=-1, keepdims=True)


def loss(predictions: Predictions) -> Floats:
    """Return the binary cross-entropy in nats, mean over labels, [N, 1]; without label smoothing."""
    signed = np.where(predictions.truth, -predictions.logits, predictions.logits)
    return np.logaddexp(0, signed).mean(axis=-1, keepdims=True)


def scored(predictions: Predictions) -> Floats:
    """Return the logit of each example, and 1 of an anomaly or 0, [N, 2]."""
    return np.concatenate([predictions.logits[:, :1], predictions.truth[:, :1]], axis=1).astype(np.float64)


METRICS: dict[str, Metric] = {
    "macro_f1": Score(counts, partial(f1, micro=False), needs=of_classes),
    "micro_f1": Score(counts, partial(f1, micro=True), needs=of_any_label),
    "label_accuracy": Score(label_accuracy, mean),
    "loss": Means(loss, mean),
}
ANOMALY_METRICS: dict[str, Metric] = {**binary.ordered(scored), "loss": Means(loss, mean)}


class MultilabelJudge(Judge):
    """Judges each label, of any number."""

    task = "multilabel"
    metrics = METRICS
    saved = "logits"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.names = targets(split.features)
        self.truth = np.asarray(split.arrays[TARGET][:]) > 0.5
        self.examples, self.outputs = self.truth.shape

    def check_single(self, meaning: str) -> None:
        """Raise `Failed` where there is not one target, whose values have a meaning."""
        if len(self.names) != 1:
            rule = f"{self.task} has one target, {meaning}"
            raise Failed("model.task", f"targets {', '.join(self.names)}", rule, "use multilabel")

    @property
    def targets(self) -> npt.NDArray[Any]:
        """Whether each label holds, [N, labels]."""
        return np.asarray(self.split.arrays[TARGET])

    @property
    def baselines(self) -> dict[str, float]:
        """Macro F1 of always predicting every label, which is the best constant prediction."""
        every = Predictions(np.ones(self.truth.shape), self.truth)
        return {"all_labels_macro_f1": METRICS["macro_f1"](every)}

    def constants(self, predictions: Predictions) -> Iterator[Predictions]:
        """Yield every label, in no order, and the frequency of each."""
        yield replace(predictions, logits=np.ones(predictions.logits.shape))
        shares = np.clip(predictions.truth.mean(axis=0), SMALLEST, 1 - SMALLEST)
        yield replace(predictions, logits=np.broadcast_to(logit(shares), predictions.logits.shape))

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the logits with the true labels."""
        return Predictions(kept["logits"].astype(np.float64), self.truth)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return which labels are predicted, [N, labels]."""
        return kept["logits"] > 0

    def binary(self, predictions: Predictions) -> dict[str, Binary]:
        """Return a decision for each label."""
        probabilities, truths = expit(predictions.logits), predictions.truth
        return {name: Binary(probabilities[:, i], truths[:, i]) for i, name in enumerate(self.names)}

    def details(self, predictions: Predictions) -> dict[str, Any]:
        """Return accuracy, precision, recall and F1 of each label."""
        true_positives = (predictions.predicted & predictions.truth).sum(axis=0)
        predicted, truth = predictions.predicted.sum(axis=0), predictions.truth.sum(axis=0)
        right = (predictions.predicted == predictions.truth).mean(axis=0)
        return {
            "classes": [
                {
                    "class": name,
                    "accuracy": float(right[i]),
                    "precision": share_or_none(true_positives[i], predicted[i]),
                    "recall": share_or_none(true_positives[i], truth[i]),
                    "f1": share_or_none(2 * true_positives[i], predicted[i] + truth[i]),
                    "support": int(truth[i]),
                }
                for i, name in enumerate(self.names)
            ]
        }

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot the predicted probabilities of each label."""
        return {"labels": labels(predictions, self.names[:MANY], self.split.name)}


class AnomalyJudge(MultilabelJudge):
    """Judges the order of the scores of one label, 1 for a known anomaly."""

    task = "anomaly"
    metrics = ANOMALY_METRICS

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.check_single("1 for an anomaly")
        if self.truth.all() or not self.truth.any():
            saw = f"{'all' if self.truth.all() else 'none'} of {len(self.truth)} examples are anomalies"
            raise Failed(f"split {split.name}", saw, "scores are compared between both kinds", "enlarge the split")

    @property
    def baselines(self) -> dict[str, float]:
        """Average precision of a random order, which is the share of anomalies."""
        return {"random_average_precision": float(self.truth.mean())}

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot precision-recall and ROC curves, and the probabilities of both kinds."""
        scores, truth = scored(predictions).T
        curves = pictures.curves({self.names[0]: (scores, truth)}, self.split.name)
        return {"curves": curves, **super().pictures(predictions, details)}


@picture
def labels(predictions: Predictions, names: list[str], title: str) -> Figure:
    """Plot histograms of each label's predicted probability, separately for examples with and without the label."""
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure((2.8 * columns, 2.3 * rows + 0.4), layout="constrained")
    figure.suptitle(f"{title}: how probable each label seemed", x=0.02, ha="left", fontsize=10, fontweight="bold")
    chances = 1 / (1 + np.exp(-predictions.logits))
    for axes in figure.subplots(rows, columns, squeeze=False).ravel()[len(names) :]:
        axes.axis("off")
    for axes, name, chance, truth in zip(figure.axes, names, chances.T, predictions.truth.T, strict=False):
        sets = {"does not hold": (chance[~truth], MUTED), "holds": (chance[truth], WARM)}
        for label, (values, colour) in sets.items():
            axes.hist(values, bins=BINS, range=(0, 1), color=colour, alpha=0.7, label=label)
        axes.set(title=name, xlim=(0, 1))
    figure.axes[0].legend(fontsize=7)
    return figure
