"""Anomaly: binary cross-entropy of one target, 1 for an anomaly."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.config.train import TrainConfig
from tasks.errors import Failed
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.engines.tensorflow.objectives import multilabel


@dataclass(frozen=True)
class Anomaly(multilabel.Multilabel):
    """Sigmoid cross-entropy; outputs [batch, 1] are logits. Accuracy says little about what is rare: the loss decides
    in early stopping."""


def create(loss: str, config: TrainConfig, snapshot: SnapshotReader) -> Anomaly:
    """Create the objective (see `make_objective`)."""
    made = multilabel.create(loss, config, snapshot)
    size = snapshot.features["target"]["shape"][0]
    if size != 1:
        raise Failed("model.task", f"{size} targets", "anomaly has one target, 1 for an anomaly", "use multilabel")
    return Anomaly(made.loss, made.smoothing)
