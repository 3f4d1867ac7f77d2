"""Yes-or-no decisions: by a threshold, which is chosen on the validation split alone, and by the order of their scores.

Metrics of the order, average precision and the area under the ROC curve, are no functions of means over examples. The
influence of an example is the derivative by its weight: for the ROC curve that is the method of DeLong, DeLong and
Clarke-Pearson (Biometrics 44, 1988). Both are undefined (NaN) without positives or without others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.errors import Failed
from tasks.evaluation.config import ThresholdConfig
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.metrics import Metric, Order, Proportion, Score
from tasks.evaluation.units import Floats, Units

FIELD = "evaluate.threshold"
USUAL = 0.5


@dataclass(frozen=True)
class Binary:
    """Probabilities of a yes-or-no decision, float64 [N], and the truth, bool [N]."""

    probabilities: Floats
    truth: npt.NDArray[np.bool_]


def counts(decision: Binary, threshold: float) -> Floats:
    """Return [N, 4]: whether an example is a true positive, a false positive, a false negative, a true negative."""
    yes, truth = decision.probabilities > threshold, decision.truth
    return np.stack([yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth], axis=-1).astype(np.float64)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def precision(means: Floats) -> Floats:
    """Return the share of positive decisions that are true, 0 where there are none."""
    return _ratio(means[..., 0], means[..., 0] + means[..., 1])


def recall(means: Floats) -> Floats:
    """Return the share of true examples that are found."""
    return _ratio(means[..., 0], means[..., 0] + means[..., 2])


def false_positive_rate(means: Floats) -> Floats:
    """Return the share of other examples that are taken for true ones."""
    return _ratio(means[..., 1], means[..., 1] + means[..., 3])


def f1(means: Floats) -> Floats:
    """Return the harmonic mean of precision and recall."""
    return _ratio(2 * means[..., 0], 2 * means[..., 0] + means[..., 1] + means[..., 2])


def accuracy(means: Floats) -> Floats:
    """Return the share of correct decisions."""
    return _ratio(means[..., 0] + means[..., 3], means.sum(axis=-1))


def balanced_accuracy(means: Floats) -> Floats:
    """Return the mean of the shares of both kinds that are decided correctly."""
    return (recall(means) + 1 - false_positive_rate(means)) / 2


def mcc(means: Floats) -> Floats:
    """Return Matthews' correlation coefficient (Biochimica et Biophysica Acta 405, 1975), 0 where undefined."""
    tp, fp, fn, tn = np.moveaxis(means, -1, 0)
    whole = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return np.divide(tp * tn - fp * fn, whole, out=np.zeros_like(whole), where=whole > 0)


def _both_kinds(sums: Floats) -> Floats:
    """Return how many of both kinds units have, [units, 2], from sums of `counts`."""
    return np.stack([sums[..., 0] + sums[..., 2], sums[..., 1] + sums[..., 3]], axis=-1)


def _of(*places: int) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return the function of sums of `counts` that returns the first of some places, and the sum of all of them."""
    return lambda sums: (sums[..., places[0]], sums[..., list(places)].sum(axis=-1))


def _right(sums: Floats) -> tuple[Floats, Floats]:
    """Return the correct decisions, and all, from sums of `counts`."""
    return sums[..., 0] + sums[..., 3], sums.sum(axis=-1)


def _selected(sums: Floats) -> Floats:
    return sums[..., :1] + sums[..., 1:2]


def measures(counted: Callable[[Any], Floats]) -> dict[str, Score]:
    """Return the measures of a yes-or-no decision by name; `counted` returns the `counts` of examples, [N, 4].

    F1 is an increasing function of a share: of true positives among all that are selected or true.
    """

    def positives(sums: Floats) -> Floats:
        return _both_kinds(sums)[..., :1]

    def negatives(sums: Floats) -> Floats:
        return _both_kinds(sums)[..., 1:]

    def of_union(share: float) -> float:
        return 2 * share / (1 + share)

    def in_union(f1: float) -> float:
        return f1 / (2 - f1)

    return {
        "precision": Proportion(counted, precision, needs=_selected, counted=_of(0, 1)),
        "recall": Proportion(counted, recall, needs=positives, counted=_of(0, 2)),
        "f1": Proportion(counted, f1, needs=positives, counted=_of(0, 1, 2), of_share=of_union, share_of=in_union),
        "accuracy": Proportion(counted, accuracy, counted=_right),
        "balanced_accuracy": Score(counted, balanced_accuracy, needs=_both_kinds, averaged=True),
        "mcc": Score(counted, mcc, lowest=-1.0, needs=_both_kinds),
        "false_positive_rate": Proportion(counted, false_positive_rate, needs=negatives, counted=_of(1, 3)),
    }


MEASURES = measures(lambda counts: counts)
"""Of `counts`, by name."""


def choose(name: str, decision: Binary, config: ThresholdConfig) -> float:
    """Return the threshold for a decision: probabilities above it are taken for true.

    Candidates lie in the middle between neighbouring probabilities; of equally good ones the nearest to 0.5 is chosen.

    Raises:
        Failed: the split has examples of one kind only, or none of the thresholds reaches the required value.
    """
    truth = decision.truth
    if truth.all() or not truth.any():
        saw = f"{'all' if truth.all() else 'none'} of {len(truth)} validation examples are {name}"
        raise Failed(FIELD, saw, "is chosen where both kinds occur", "enlarge validation in records.splits")
    values, cells = np.unique(decision.probabilities, return_inverse=True)
    true_from, all_from = (
        np.concatenate([np.cumsum(np.bincount(cells, weights, len(values))[::-1])[::-1], [0.0]])
        for weights in (truth.astype(np.float64), None)
    )
    candidates = np.concatenate([[values[0] / 2], (values[1:] + values[:-1]) / 2, [(values[-1] + 1) / 2]])
    positives, whole = float(truth.sum()), float(len(truth))
    tp, fp = true_from, all_from - true_from
    means = np.stack([tp, fp, positives - tp, whole - positives - fp], axis=-1) / whole
    goal, required, least = config.goal
    scores = MEASURES[goal].value(means)
    if required is not None:
        reached = MEASURES[required].value(means)
        fits = reached <= least if required == "false_positive_rate" else reached >= least
        if not (fits & (tp + fp > 0)).any():
            best = reached[tp + fp > 0].min() if required == "false_positive_rate" else reached[tp + fp > 0].max()
            saw = f"{name} reaches {required.replace('_', ' ')} {best:.4g} on the validation split, not {least:g}"
            raise Failed(FIELD, saw, "is chosen among those that reach it", "require less, or train a better model")
        scores = np.where(fits & (tp + fp > 0), scores, -1.0)
    best_ones = np.flatnonzero(scores >= scores.max() - 1e-12)
    return float(candidates[best_ones[np.abs(candidates[best_ones] - USUAL).argmin()]])


def measured(
    decisions: Mapping[str, Binary], thresholds: Mapping[str, float], units: Units | None
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return the measures of each decision at its threshold with intervals, and at 0.5, for the report; and those of
    the only decision, or the mean F1 of several, by flat name."""
    rows: list[dict[str, Any]] = []
    f1_scores: list[float] = []
    flattened: dict[str, float] = {}
    for name, decision in decisions.items():
        threshold = thresholds[name]
        of_each, usual = counts(decision, threshold), counts(decision, USUAL)
        at = {measure: interval_of(metric, of_each, units) for measure, metric in MEASURES.items()}
        rows.append(
            {
                "decision": name,
                "threshold": threshold,
                "at_threshold": {measure: each.as_json() for measure, each in at.items()},
                "at_half": {measure: metric.of(usual) for measure, metric in MEASURES.items()},
            }
        )
        f1_scores.append(at["f1"].value)
        for measure, each in at.items():
            flattened |= each.flat(f"threshold/{measure}")
    if len(rows) > 1:
        flattened = {"threshold/macro_f1": float(np.mean(f1_scores))}
    return rows, flattened


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


def ordered(scored: Callable[[Any], Floats]) -> dict[str, Metric]:
    """Return the metrics of the order, by the names of `evaluate.metrics`.

    `scored` leads from a task's `Predictions` to the score of each example, and 1 of a positive or 0, [N, 2].
    """
    return {
        "average_precision": Order(scored, average_precision, influence_on_average_precision),
        "roc_auc": Order(scored, roc_auc, influence_on_roc_auc),
    }
