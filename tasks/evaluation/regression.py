"""Regression: numbers for each example, in the units in which they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tasks.config import EvaluateConfig
from tasks.evaluation.judging import Call, Kept, Split, quarters
from tasks.evaluation.metrics import Floats, Metric, mean
from tasks.evaluation.pictures import ACCENT, MUTED, dots, picture
from tasks.models.features import TARGET, fed, targets

SAME = 0.05
"""Two forms of a model agree on a number where they differ by less than this share of its deviation."""


@dataclass(frozen=True)
class Answers:
    """What was said and what was true, [N, targets]."""

    said: Floats
    truth: Floats


def squares(answers: Answers) -> Floats:
    """Squared error, the mean over targets."""
    return ((answers.said - answers.truth) ** 2).mean(axis=-1, keepdims=True)


def absolute(answers: Answers) -> Floats:
    """Absolute error, the mean over targets."""
    return np.abs(answers.said - answers.truth).mean(axis=-1, keepdims=True)


def moments(answers: Answers) -> Floats:
    """[N, 3 * targets]: squared error, truth and its square, each truth from its own mean so that little cancels."""
    centred = answers.truth - answers.truth.mean(axis=0)
    return np.concatenate([(answers.said - answers.truth) ** 2, centred, centred**2], axis=-1)


def explained(means: Floats) -> Floats:
    """Share of the targets' variance that is explained, the mean over targets."""
    error, first, second = np.split(means, 3, axis=-1)
    variance = np.maximum(second - first**2, 1e-30)
    return (1 - error / variance).mean(axis=-1)


LOSS = {"squared_error": squares, "absolute_error": absolute}
"""What `train.loss` minimises, as contributions."""

METRICS = {
    "rmse": Metric(squares, lambda means: np.sqrt(means[..., 0])),
    "mae": Metric(absolute, mean),
    "r2": Metric(moments, explained),
    "loss": Metric(squares, mean),
}
"""By the names that `evaluate.metrics` knows; a judge's `loss` is the one that was minimised."""


class Judge:
    """As `tasks.evaluation.judging.Judge` says."""

    saved = "outputs"
    baselines: dict[str, float] = {}

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        self.split, self.config = split, config
        self.metrics = {**METRICS, "loss": Metric(LOSS[loss], mean)}
        self.names = targets(split.features)
        self.inputs = fed(split.features, split.arrays)
        self.truth = np.asarray(split.arrays[TARGET][:], np.float64)
        self.examples, self.outputs = self.truth.shape

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """The numbers, whole."""
        return {"outputs": outputs}

    def answers(self, kept: Kept) -> Answers:
        """What it said, beside what was true."""
        return Answers(kept["outputs"].astype(np.float64), self.truth)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """The numbers in steps of a share of their deviation."""
        return np.rint(kept["outputs"] / np.maximum(SAME * self.truth.std(axis=0), 1e-30))

    def figures(self, answers: Answers) -> dict[str, float]:
        """None: every figure is a metric."""
        return {}

    def details(self, answers: Answers) -> dict[str, Any]:
        """The examples that it was furthest from."""
        errors = np.abs(answers.said - answers.truth).max(axis=-1)
        rows = np.lexsort((np.arange(len(errors)), -errors))[: self.config.most_wrong]
        keys = self.split.keys(rows)
        furthest = [
            {"row": int(row), "key": key, "true": answers.truth[row].tolist(), "said": answers.said[row].tolist()}
            for row, key in zip(rows, keys, strict=True)
        ]
        return {"targets": self.names, "furthest": furthest}

    def slices(self, answers: Answers) -> dict[str, npt.NDArray[np.bool_]]:
        """Quarters of the examples by the first target."""
        return quarters(answers.truth[:, 0], f"{self.names[0]} {{low:.4g}} to {{high:.4g}}")

    def pictures(self, answers: Answers, details: dict[str, Any]) -> dict[str, bytes]:
        """What was said against what was true, and the spread of the differences."""
        return {"predicted": predicted(answers, self.names[0], self.split.name)}

    def show(self, call: Call) -> dict[str, Any]:
        """Nothing but numbers and pictures."""
        return {}


@picture
def predicted(answers: Answers, name: str, title: str) -> Figure:
    """Of the first target: what was said over what was true; beside it how far off that was."""
    figure = Figure((8.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    said, truth = answers.said[:, 0], answers.truth[:, 0]
    ends = (min(said.min(), truth.min()), max(said.max(), truth.max()))
    left.plot(ends, ends, color=MUTED, linestyle="--", linewidth=1)
    dots(left, truth, said)
    left.set(xlabel=f"{name}, true", ylabel="said", title=f"{title}: {name}")
    right.hist(said - truth, bins=30, color=ACCENT, alpha=0.85)
    right.set(xlabel="said minus true", ylabel="examples", title=f"off by {METRICS['mae'](answers):.4g} on average")
    return figure
