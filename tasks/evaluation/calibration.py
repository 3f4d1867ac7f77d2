"""Calibration: does a classifier that is 80 % sure answer rightly 80 % of the time?

The expected calibration error is a sum of absolute values, which noise can only raise: it is above 0 for a perfectly
calibrated model, and a bootstrap raises it once more, so that its percentiles leave out both the value and the truth.
It therefore has no interval. Beside it stands a test: how often a calibrated model with the same confidences has an
error as large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.evaluation.intervals import SEED, VALUES_AT_ONCE
from tasks.evaluation.metrics import Floats


@dataclass(frozen=True)
class Calibration:
    """The result of the test."""

    error: float
    """Expected calibration error."""
    expected: float
    """The mean error of a calibrated model with the same confidences: noise alone."""
    p_value: float
    """The probability that such a model has an error as large as this one's or larger."""


def bins_of(confidence: Floats, bins: int) -> npt.NDArray[np.int64]:
    """The equal-width bin of each confidence, [N]."""
    return np.minimum((confidence * bins).astype(np.int64), bins - 1)


def gaps(confidence: Floats, correct: npt.NDArray, bins: int) -> Floats:
    """[N, bins]: confidence minus correctness in the column of each example's bin, else 0 (Guo et al., 1706.04599)."""
    columns = np.zeros((len(confidence), bins))
    columns[np.arange(len(confidence)), bins_of(confidence, bins)] = confidence - correct
    return columns


def error_of(means: Floats) -> Floats:
    """The expected calibration error from the means over examples of `gaps`, [..., bins]."""
    return np.abs(means).sum(axis=-1)


def consistency(confidence: Floats, correct: npt.NDArray, bins: int, resamples: int) -> Calibration:
    """Consistency resampling (Bröcker and Smith, Weather and Forecasting 22, 2007; as a test of the expected
    calibration error: Vaicenavicius et al., AISTATS 2019, arXiv 1902.06977).

    Whether an answer is right is drawn anew `resamples` times with the model's own confidence as its probability,
    seeded; p = (1 + draws with an error as large) / (1 + draws), so that it is never 0.

    Args:
        confidence: [N], of the predicted class.
        correct: [N], whether that is the label.
    """
    error = float(error_of(gaps(confidence, correct, bins).mean(axis=0)))
    random = np.random.default_rng(SEED)
    edges = np.argsort(bins_of(confidence, bins), kind="stable")
    ordered = confidence[edges]
    starts = np.flatnonzero(np.diff(bins_of(ordered, bins), prepend=-1))
    draws = []
    at_once = max(1, VALUES_AT_ONCE // len(ordered))
    for first in range(0, resamples, at_once):
        right = random.random((min(at_once, resamples - first), len(ordered))) < ordered
        draws.append(np.abs(np.add.reduceat(ordered - right, starts, axis=1)).sum(axis=1) / len(ordered))
    calibrated = np.concatenate(draws)
    # as large but for the rounding of a sum in another order
    as_large = int((calibrated >= error * (1 - 1e-9)).sum())
    return Calibration(error, float(calibrated.mean()), (1 + as_large) / (1 + resamples))
