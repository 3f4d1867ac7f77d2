"""Multilabel: for each of several labels, whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tasks.config import EvaluateConfig
from tasks.evaluation.judging import Call, Kept, Split
from tasks.evaluation.metrics import Floats, Metric, mean
from tasks.evaluation.pictures import MUTED, WARM, picture
from tasks.models.features import TARGET, fed, targets

BINS = 20
MANY = 12
"""More labels than these are not drawn."""


@dataclass(frozen=True)
class Answers:
    """Logits and truth, [N, labels]."""

    logits: Floats
    truth: npt.NDArray[np.bool_]

    @property
    def said(self) -> npt.NDArray[np.bool_]:
        """Where a label was said to hold."""
        return self.logits > 0


def counts(answers: Answers) -> Floats:
    """[N, 3 * labels]: whether each label was found, said to hold, and held."""
    found = answers.said & answers.truth
    return np.concatenate([found, answers.said, answers.truth], axis=-1).astype(np.float64)


def f1(means: Floats, micro: bool) -> Floats:
    """F1 of the labels' sums, or the mean of each label's own; 0 where nothing is said and nothing holds."""
    found, said, truth = np.split(means, 3, axis=-1)
    if micro:
        found, said, truth = (part.sum(axis=-1, keepdims=True) for part in (found, said, truth))
    both = said + truth
    return np.divide(2 * found, both, out=np.zeros_like(both), where=both > 0).mean(axis=-1)


def label_accuracy(answers: Answers) -> Floats:
    """Share of an example's labels that are right."""
    return (answers.said == answers.truth).mean(axis=-1, keepdims=True)


def loss(answers: Answers) -> Floats:
    """Binary cross-entropy in nats, the mean over labels: what training minimises."""
    signed = np.where(answers.truth, -answers.logits, answers.logits)
    return np.logaddexp(0, signed).mean(axis=-1, keepdims=True)


METRICS = {
    "macro_f1": Metric(counts, partial(f1, micro=False)),
    "micro_f1": Metric(counts, partial(f1, micro=True)),
    "label_accuracy": Metric(label_accuracy, mean),
    "loss": Metric(loss, mean),
}


class Judge:
    """As `tasks.evaluation.judging.Judge` says."""

    metrics = METRICS
    saved = "logits"
    baselines: dict[str, float] = {}

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        self.split = split
        self.names = targets(split.features)
        self.inputs = fed(split.features, split.arrays)
        self.truth = np.asarray(split.arrays[TARGET][:]) > 0.5
        self.examples, self.outputs = self.truth.shape

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """The logits, whole."""
        return {"logits": outputs}

    def answers(self, kept: Kept) -> Answers:
        """What it said, beside what was true."""
        return Answers(kept["logits"].astype(np.float64), self.truth)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Which labels hold."""
        return kept["logits"] > 0

    def figures(self, answers: Answers) -> dict[str, float]:
        """None: every figure is a metric."""
        return {}

    def details(self, answers: Answers) -> dict[str, Any]:
        """Accuracy, precision, recall and F1 of each label."""
        found = (answers.said & answers.truth).sum(axis=0)
        said, truth = answers.said.sum(axis=0), answers.truth.sum(axis=0)
        right = (answers.said == answers.truth).mean(axis=0)
        return {
            "classes": [
                {
                    "class": name,
                    "accuracy": float(right[i]),
                    "precision": _share(found[i], said[i]),
                    "recall": _share(found[i], truth[i]),
                    "f1": _share(2 * found[i], said[i] + truth[i]),
                    "support": int(truth[i]),
                }
                for i, name in enumerate(self.names)
            ]
        }

    def slices(self, answers: Answers) -> dict[str, npt.NDArray[np.bool_]]:
        """None: the F1 of a group in which a label always or never holds says nothing."""
        return {}

    def pictures(self, answers: Answers, details: dict[str, Any]) -> dict[str, bytes]:
        """How sure the model was of each label."""
        return {"labels": labels(answers, self.names[:MANY], self.split.name)}

    def show(self, call: Call) -> dict[str, Any]:
        """Nothing but numbers and pictures."""
        return {}


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


@picture
def labels(answers: Answers, names: list[str], title: str) -> Figure:
    """For each label how probable the model thought it, where it holds and where it does not."""
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = Figure((2.8 * columns, 2.3 * rows + 0.4), layout="constrained")
    figure.suptitle(f"{title}: how probable each label seemed", x=0.02, ha="left", fontsize=10, fontweight="bold")
    chances = 1 / (1 + np.exp(-answers.logits))
    for axes in figure.subplots(rows, columns, squeeze=False).ravel()[len(names) :]:
        axes.axis("off")
    for axes, name, chance, truth in zip(figure.axes, names, chances.T, answers.truth.T, strict=False):
        sets = {"does not hold": (chance[~truth], MUTED), "holds": (chance[truth], WARM)}
        for label, (values, colour) in sets.items():
            axes.hist(values, bins=BINS, range=(0, 1), color=colour, alpha=0.7, label=label)
        axes.set(title=name, xlim=(0, 1))
    figure.axes[0].legend(fontsize=7)
    return figure
