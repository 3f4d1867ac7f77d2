"""Anomaly detection with known anomalies: one target, 1 for an anomaly, judged by the order of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.errors import Failed
from tasks.evaluation import multilabel, ordering, pictures
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.metrics import Means, Metric, mean
from tasks.evaluation.multilabel import Predictions
from tasks.evaluation.splits import Split
from tasks.evaluation.units import Floats


def scored(predictions: Predictions) -> Floats:
    """Return the logit of each example, and 1 of an anomaly or 0, [N, 2]."""
    return np.concatenate([predictions.logits[:, :1], predictions.truth[:, :1]], axis=1).astype(np.float64)


METRICS: dict[str, Metric] = {**ordering.metrics(scored), "loss": Means(multilabel.loss, mean)}
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
        scores, truth = scored(predictions).T
        curves = pictures.curves({self.names[0]: (scores, truth)}, self.split.name)
        return {"curves": curves, **super().pictures(predictions, details)}
