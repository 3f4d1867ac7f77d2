"""Anomaly detection with known anomalies: one target, 1 for an anomaly, judged by the order of the scores.

Average precision and the area under the ROC curve are no functions of means over examples. Their contributions are the
value plus each example's influence on it (the derivative by its weight), whose mean is the value: for the ROC curve
that is the method of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import rankdata

from tasks.config import EvaluateConfig
from tasks.errors import Failed
from tasks.evaluation import multilabel, pictures
from tasks.evaluation.metrics import Floats, Metric, mean
from tasks.evaluation.multilabel import Predictions
from tasks.evaluation.splits import Split

NORMAL = "normal"
"""The name of what is no anomaly, in plots."""


def average_precision(predictions: Predictions) -> Floats:
    """Return the average precision plus the influence of each example, [N, 1].

    The value is the mean over anomalies of the precision among the examples that score at least as high.
    """
    scores, truth = predictions.logits[:, 0], predictions.truth[:, 0].astype(np.float64)
    values, cells = np.unique(scores, return_inverse=True)
    count, positives = len(scores), truth.mean()

    def at_least(weights: Floats) -> Floats:
        """Return for each score the mean over all examples of the weights of those that score as high or higher."""
        return np.cumsum(np.bincount(cells, weights, len(values))[::-1])[::-1] / count

    selected = at_least(np.ones(count))
    precision = at_least(truth) / selected
    of_score = np.bincount(cells, truth, len(values)) / count
    value = (of_score * precision).sum() / positives
    gained, lost = np.cumsum(of_score / selected), np.cumsum(of_score * precision / selected)
    own = truth * (precision[cells] - value + gained[cells])
    influence: Floats = (own - lost[cells]) / positives
    return (value + influence)[:, None]


def roc_auc(predictions: Predictions) -> Floats:
    """Return the area under the ROC curve plus the influence of each example, [N, 1].

    The value is the share of pairs of an anomaly and another example in which the anomaly scores higher; equal scores
    count half.
    """
    scores, truth = predictions.logits[:, 0], predictions.truth[:, 0]
    above = np.empty(len(scores))
    everywhere = rankdata(scores)
    for kind, others in ((truth, ~truth), (~truth, truth)):
        above[kind] = (everywhere[kind] - rankdata(scores[kind])) / others.sum()
    placed = np.where(truth, above, 1 - above)  # of a normal one the share of anomalies above it
    value = placed[truth].mean()
    share = np.where(truth, truth.mean(), 1 - truth.mean())
    influence: Floats = (placed - value) / share
    return (value + influence)[:, None]


METRICS = {
    "average_precision": Metric(average_precision, mean),
    "roc_auc": Metric(roc_auc, mean),
    "loss": Metric(multilabel.loss, mean),
}
"""By the names of `evaluate.metrics`."""


class Judge(multilabel.Judge):
    """Implements `tasks.evaluation.judging.Judge`, as of the only label."""

    metrics = METRICS

    def __init__(self, split: Split, config: EvaluateConfig, loss: str) -> None:
        super().__init__(split, config, loss)
        if len(self.names) != 1:
            rule = "anomaly has one target, 1 for an anomaly"
            raise Failed("model.task", f"targets {', '.join(self.names)}", rule, "use multilabel")
        if self.truth.all() or not self.truth.any():
            saw = f"{'all' if self.truth.all() else 'none'} of {len(self.truth)} examples are anomalies"
            raise Failed(f"split {split.name}", saw, "scores are compared between both kinds", "enlarge the split")

    @property
    def baselines(self) -> dict[str, float]:
        """Average precision of a random order, which is the share of anomalies."""
        return {"random_average_precision": float(self.truth.mean())}

    def pictures(self, predictions: Predictions, details: dict[str, Any]) -> dict[str, bytes]:
        """Plot precision-recall and ROC curves, and the probabilities of both kinds."""
        chances = expit(predictions.logits[:, 0])
        both: npt.NDArray = np.stack([1 - chances, chances], axis=-1)
        labels = predictions.truth[:, 0].astype(np.int64)
        curves = pictures.curves(labels, both, [NORMAL, self.names[0]], self.split.name)
        return {"curves": curves, **super().pictures(predictions, details)}
