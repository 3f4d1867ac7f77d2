"""Metrics as functions of means over examples, so that a bootstrap resample needs no new evaluation.

Each metric has K contributions for every example; its value is a function of their means. This covers shares, means,
ratios of sums (bits per byte), roots of means and scores made of counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Metric:
    """A function of the mean over examples of K contributions."""

    contributions: Callable[[Any], Floats]
    """From a task's `Predictions` to float64 [N, K]."""

    value: Callable[[Floats], Floats]
    """From means [..., K] to values [...]."""

    share: bool = False
    """Whether it counts examples: contributions are 0 or 1, and the value is their mean."""

    resampled: bool = True
    """Whether a bootstrap gives a valid interval; it does not for a sum of absolute values (see `calibration`)."""

    corrected: bool = True
    """Whether its interval is that of BCa; of ratios of sums the percentiles cover more (docs/decisions.md)."""

    def __call__(self, predictions: Any) -> float:
        return float(self.value(self.contributions(predictions).mean(axis=0)))


def mean(means: Floats) -> Floats:
    """Return the mean of the only contribution."""
    return means[..., 0]


def ratio(means: Floats) -> Floats:
    """Return the ratio of the first contribution's sum to the second's."""
    return means[..., 0] / means[..., 1]
