"""Ranking: binary cross-entropy of each document by itself, 1 where it is relevant (pointwise)."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.config.train import TrainConfig
from tasks.errors import Failed
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import multilabel


@dataclass(frozen=True)
class Ranking(multilabel.Multilabel):
    """Sigmoid cross-entropy; outputs [batch, 1] are scores. The loss decides in early stopping."""


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Ranking:
    """Create the objective (see `make_objective`)."""
    made = multilabel.create(loss, config, snapshot)
    size = snapshot.features["target"]["shape"][0]
    if size != 1:
        rule = "ranking has one target, 1 for a relevant document"
        raise Failed("model.task", f"{size} targets", rule, "use multilabel")
    return Ranking(made.loss, made.smoothing)
