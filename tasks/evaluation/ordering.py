"""Metrics of the order of scores: average precision, and the area under the ROC curve.

They are no functions of means over examples. The influence of an example is the derivative by its weight: for the ROC
curve that is the method of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988). Both are undefined (NaN) without
positives or without others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.evaluation.metrics import Metric, Order
from tasks.evaluation.units import Floats

Truth = npt.NDArray[np.bool_]


def average_precision(scores: Floats, truth: Truth) -> float:
    """Return the mean over positives of the precision among the examples that score at least as high; equal scores are
    one step, as in scikit-learn's `average_precision_score`."""
    return _precisions(scores, truth)[0] if _both(truth) else float("nan")


def influence_on_average_precision(scores: Floats, truth: Truth) -> Floats:
    """Return the influence of each example on the average precision, [N]."""
    if not _both(truth):
        return np.full(len(scores), np.nan)
    value, precision, selected, of_score, cells = _precisions(scores, truth)
    gained, lost = np.cumsum(of_score / selected), np.cumsum(of_score * precision / selected)
    own = truth * (precision[cells] - value + gained[cells])
    influence: Floats = (own - lost[cells]) / truth.mean()
    return influence


def _precisions(scores: Floats, truth: Truth) -> tuple[float, Floats, Floats, Floats, npt.NDArray[np.int64]]:
    """Return the average precision; for each score the precision among those as high, the share of the examples that
    are as high, and of those that are positive and equal; and the place of each example's score."""
    values, cells = np.unique(scores, return_inverse=True)
    count = len(scores)

    def at_least(weights: Floats) -> Floats:
        """Return for each score the mean over all examples of the weights of those that score as high or higher."""
        return np.cumsum(np.bincount(cells, weights, len(values))[::-1])[::-1] / count

    selected = at_least(np.ones(count))
    precision = at_least(truth.astype(np.float64)) / selected
    of_score = np.bincount(cells, truth, len(values)) / count
    return float((of_score * precision).sum() / truth.mean()), precision, selected, of_score, cells


def roc_auc(scores: Floats, truth: Truth) -> float:
    """Return the share of pairs of a positive and another example in which the positive scores higher; equal scores
    count half."""
    return float(_placed(scores, truth)[truth].mean()) if _both(truth) else float("nan")


def influence_on_roc_auc(scores: Floats, truth: Truth) -> Floats:
    """Return the influence of each example on the area under the ROC curve, [N]."""
    if not _both(truth):
        return np.full(len(scores), np.nan)
    placed = _placed(scores, truth)
    share = np.where(truth, truth.mean(), 1 - truth.mean())
    influence: Floats = (placed - placed[truth].mean()) / share
    return influence


def _placed(scores: Floats, truth: Truth) -> Floats:
    """Return of each positive the share of the others below it, and of each other the share of positives above it."""
    above = np.empty(len(scores))
    for kind in (truth, ~truth):
        others = np.sort(scores[~kind])
        below, up_to = (np.searchsorted(others, scores[kind], side) for side in ("left", "right"))
        above[kind] = (below + up_to) / 2 / len(others)
    return np.where(truth, above, 1 - above)


def _both(truth: Truth) -> bool:
    return bool(truth.any() and not truth.all())


def metrics(scored: Callable[[Any], Floats]) -> dict[str, Metric]:
    """Return the metrics of the order, by the names of `evaluate.metrics`.

    `scored` leads from a task's `Predictions` to the score of each example, and 1 of a positive or 0, [N, 2].
    """
    return {
        "average_precision": Order(scored, average_precision, influence_on_average_precision),
        "roc_auc": Order(scored, roc_auc, influence_on_roc_auc),
    }
