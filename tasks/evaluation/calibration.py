"""Calibration of a classifier, and the temperature that is fitted on the validation split.

The expected calibration error is a sum of absolute values, which noise can only increase: it is above 0 for a
perfectly calibrated model, and resampling adds noise once more, so that its percentiles contain neither the value nor
the truth. It therefore has no interval; a test gives the probability that a calibrated model with the same
confidences has an error at least as large.

Guo et al., "On calibration of modern neural networks" (arXiv 1706.04599). The prediction of a class stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import difference, flat, intervals
from tasks.evaluation.judging import Judge
from tasks.evaluation.units import Floats

SEED = 0
MAX_VALUES = 4_000_000
"""Draws of correctness in a batch; bounds its memory."""


@dataclass(frozen=True)
class Calibration:
    """The result of `consistency_test`."""

    error: float
    """Expected calibration error."""
    expected: float
    """Mean error of a calibrated model with the same confidences."""
    p_value: float
    """Probability that such a calibrated model has an error of at least `error`."""


def bins_of(confidence: Floats, bins: int) -> npt.NDArray[np.int64]:
    """Return the equal-width bin of each confidence, int64 [N]."""
    return np.minimum((confidence * bins).astype(np.int64), bins - 1)


def gaps(confidence: Floats, correct: npt.NDArray, bins: int) -> Floats:
    """Return confidence minus correctness in the column of the example's bin, else 0, [N, bins] (arXiv 1706.04599)."""
    columns = np.zeros((len(confidence), bins))
    columns[np.arange(len(confidence)), bins_of(confidence, bins)] = confidence - correct
    return columns


def error_of(means: Floats) -> Floats:
    """Return the expected calibration error [...] from means over examples of `gaps`, [..., bins]."""
    return np.abs(means).sum(axis=-1)


def consistency_test(confidence: Floats, correct: npt.NDArray, bins: int, resamples: int) -> Calibration:
    """Test for calibration by consistency resampling (Bröcker and Smith, Weather and Forecasting 22, 2007; as a test
    of the expected calibration error: Vaicenavicius et al., AISTATS 2019, arXiv 1902.06977).

    Correctness is drawn `resamples` times with a fixed seed, with the model's confidence as its probability;
    p = (1 + draws with at least this error) / (1 + draws), so that it is never 0.

    Args:
        confidence: [N], probability of the predicted class.
        correct: [N], whether the predicted class is the label.
        bins: number of equal-width bins.
        resamples: number of draws.
    """
    error = float(error_of(gaps(confidence, correct, bins).mean(axis=0)))
    random = np.random.default_rng(SEED)
    edges = np.argsort(bins_of(confidence, bins), kind="stable")
    ordered = confidence[edges]
    starts = np.flatnonzero(np.diff(bins_of(ordered, bins), prepend=-1))
    draws = []
    batch_size = max(1, MAX_VALUES // len(ordered))
    for first in range(0, resamples, batch_size):
        right = random.random((min(batch_size, resamples - first), len(ordered))) < ordered
        draws.append(np.abs(np.add.reduceat(ordered - right, starts, axis=1)).sum(axis=1) / len(ordered))
    calibrated = np.concatenate(draws)
    # a tolerance for the rounding of a sum in another order
    as_large = int((calibrated >= error * (1 - 1e-9)).sum())
    return Calibration(error, float(calibrated.mean()), (1 + as_large) / (1 + resamples))


LOWEST, HIGHEST = 0.05, 20.0
"""Bounds of the temperature: where all validation examples are correct, the best one is 0."""

AGAIN = ("loss", "calibration_error")
"""The metrics that are computed again."""


class Scalable(Protocol):
    """`Predictions` of probabilities."""

    def scaled(self, temperature: float) -> Self:
        """Return the predictions of logits divided by the temperature."""
        ...


def fit(judge: Judge, predictions: Scalable) -> float:
    """Return the temperature with the lowest mean loss of these predictions.

    The loss is convex in the inverse of the temperature, so that there is one minimum.
    """
    loss = judge.metrics["loss"]
    found = minimize_scalar(
        lambda logarithm: loss(predictions.scaled(exp(logarithm))),
        bounds=(log(LOWEST), log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-9, "maxiter": 200},
    )
    return float(exp(found.x))


def measured(
    judge: Judge, predictions: Scalable, temperature: float, config: EvaluateConfig
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return loss and calibration error of a split before and after scaling, for the report and by flat name.

    The change of the loss has a paired interval.
    """
    scaled = predictions.scaled(temperature)
    names = tuple(name for name in AGAIN if name in judge.metrics)
    before, after = (intervals(judge.metrics, names, each, judge.units) for each in (predictions, scaled))
    loss = judge.metrics["loss"]
    change = difference(loss, loss.contributions(predictions), loss.contributions(scaled), judge.units)
    tests = {name: value for name, value in judge.figures(scaled).items() if name.startswith(f"{AGAIN[1]}/")}
    row = {
        "before": {name: each.as_json() for name, each in before.items()},
        "after": {name: each.as_json() for name, each in after.items()} | tests,
        "loss_change": change.as_json(),
    }
    return row, flat("calibrated", after) | {f"calibrated/{name}": value for name, value in tests.items()}
