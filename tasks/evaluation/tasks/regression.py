"""Regression: one or more numbers for each example, in the units of the targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from tasks.config.task import TARGET
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge, Kept, quarters
from tasks.evaluation.metrics import Means, Metric, mean, root
from tasks.evaluation.pictures import ACCENT, MUTED, dots, picture
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Floats
from tasks.models.features import targets

SAME = 0.05
"""Two forms of a model agree on a number where they differ by less than this share of its standard deviation."""

ROUNDING = 1e-12
"""A variance of less than this share of the mean square is that of equal values, whose sums were rounded."""


@dataclass(frozen=True)
class Predictions:
    """Predicted and true numbers, both float64 [N, targets]."""

    predicted: Floats
    truth: Floats


def squares(predictions: Predictions) -> Floats:
    """Return the squared error, mean over targets, [N, 1]."""
    return ((predictions.predicted - predictions.truth) ** 2).mean(axis=-1, keepdims=True)


def absolute(predictions: Predictions) -> Floats:
    """Return the absolute error, mean over targets, [N, 1]."""
    return np.abs(predictions.predicted - predictions.truth).mean(axis=-1, keepdims=True)


def moments(predictions: Predictions) -> Floats:
    """Return squared error, centred true value and its square, [N, 3 * targets]; centred against cancellation."""
    centred = predictions.truth - predictions.truth.mean(axis=0)
    return np.concatenate([(predictions.predicted - predictions.truth) ** 2, centred, centred**2], axis=-1)


def explained(means: Floats) -> Floats:
    """Return R squared [...] from means of `moments`, mean over targets.

    Of a target whose values are all equal it is 1 where no prediction is wrong, else 0, as scikit-learn's `r2_score`
    has it; also in a resample of the examples.
    """
    error, first, second = np.split(means, 3, axis=-1)
    variance = second - first**2
    varies = variance > ROUNDING * second
    unexplained = np.divide(error, variance, out=np.where(error > 0, 1.0, 0.0), where=varies)
    return (1 - unexplained).mean(axis=-1)


LOSS = {"squared_error": squares, "absolute_error": absolute}
"""By `train.loss`, the contributions of the loss."""

METRICS: dict[str, Metric] = {
    "rmse": Means(squares, root, of_mean=np.sqrt, mean_of=np.square),
    "mae": Means(absolute, mean),
    "r2": Means(moments, explained, lowest=-inf, highest=1.0),
    "loss": Means(squares, mean),
}
"""By the names of `evaluate.metrics`; a judge replaces `loss` by the loss that training minimised."""


class RegressionJudge(Judge):
    """Judges a regression."""

    task = "regression"
    metrics = METRICS
    saved = "outputs"

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        self.metrics = {**METRICS, "loss": Means(LOSS[loss], mean)}
        self.names = targets(split.features)
        self.truth = np.asarray(split.arrays[TARGET][:], np.float64)
        self.examples, self.outputs = self.truth.shape

    @property
    def targets(self) -> npt.NDArray[Any]:
        """The true numbers, [N, targets]."""
        return np.asarray(self.split.arrays[TARGET])

    @property
    def baselines(self) -> dict[str, float]:
        """Root mean squared error of always predicting the mean of these examples."""
        return {"mean_rmse": float(np.sqrt(self.truth.var(axis=0).mean()))}

    def constants(self, predictions: Predictions) -> Iterator[Predictions]:
        """Yield the mean and the median of each target."""
        for middle in (predictions.truth.mean(axis=0), np.median(predictions.truth, axis=0)):
            yield replace(predictions, predicted=np.broadcast_to(middle, predictions.truth.shape))

    def predictions(self, kept: Kept) -> Predictions:
        """Combine the outputs with the true numbers."""
        return Predictions(kept["outputs"].astype(np.float64), self.truth)

    def decisions(self, kept: Kept) -> npt.NDArray:
        """Return the outputs, rounded to multiples of `SAME` standard deviations of the target, of one whose values are
        all equal to whole numbers."""
        step = SAME * self.truth.std(axis=0)
        return np.rint(kept["outputs"] / np.where(step > 0, step, 1.0))

    def details(self, predictions: Predictions) -> dict[str, Any]:
        """Return the examples with the largest absolute errors."""
        errors = np.abs(predictions.predicted - predictions.truth).max(axis=-1)
        rows = np.lexsort((np.arange(len(errors)), -errors))[: self.config.most_wrong]
        keys = self.split.keys(rows)
        rows_furthest = [
            {
                "row": int(row),
                "key": key,
                "true": predictions.truth[row].tolist(),
                "predicted": predictions.predicted[row].tolist(),
            }
            for row, key in zip(rows, keys, strict=True)
        ]
        return {"targets": self.names, "furthest": rows_furthest}

    def slices(self, predictions: Predictions) -> dict[str, npt.NDArray[np.bool_]]:
        """Return masks of the quartiles of the first target."""
        return quarters(predictions.truth[:, 0], lambda span: f"{self.names[0]} {span}", ".4g")

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot predicted against true numbers, and a histogram of the errors."""
        return {"predicted": predicted_against_true(predictions, self.names[0], self.split.name)}


@picture
def predicted_against_true(predictions: Predictions, name: str, title: str) -> Figure:
    """Plot the first target: predicted against true numbers, and a histogram of the errors."""
    figure = Figure((8.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    predicted, truth = predictions.predicted[:, 0], predictions.truth[:, 0]
    ends = (min(predicted.min(), truth.min()), max(predicted.max(), truth.max()))
    left.plot(ends, ends, color=MUTED, linestyle="--", linewidth=1)
    dots(left, truth, predicted)
    left.set(xlabel=f"{name}, true", ylabel="predicted", title=f"{title}: {name}")
    right.hist(predicted - truth, bins=30, color=ACCENT, alpha=0.85)
    right.set(
        xlabel="predicted minus true", ylabel="examples", title=f"off by {METRICS['mae'](predictions):.4g} on average"
    )
    return figure
