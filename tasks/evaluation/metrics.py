"""Metrics as sums over examples, so that a resample costs a gather and not an evaluation.

Each metric gives every example K numbers; its value is a function of their means. That is all a bootstrap needs, and
it holds for shares, means, ratios of sums (bits per byte), roots of means and scores made of counts alike.
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
    """From a task's answers to [N, K]."""

    value: Callable[[Floats], Floats]
    """Means [..., K] to values [...]."""

    share: bool = False
    """Whether it counts examples: contributions are 0 or 1, the value is their mean."""

    resampled: bool = True
    """Whether resampling the examples gives an interval; not of a sum of absolute values, which it raises."""

    def __call__(self, answers: Any) -> float:
        return float(self.value(self.contributions(answers).mean(axis=0)))


def mean(means: Floats) -> Floats:
    """The mean of the one contribution."""
    return means[..., 0]


def ratio(means: Floats) -> Floats:
    """The sum of the first contribution over that of the second."""
    return means[..., 0] / means[..., 1]
