"""The TensorFlow engine: step, objectives, optimizers, strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.train import TrainConfig
from tasks.models import ModelConfig

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader
    from tasks.training.engines import Engine, Scorer
    from tasks.training.group import Cluster
    from tasks.training.plan import Plan


def scorer(config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, seed: int) -> Scorer:
    """Create what scores weights in another process (see `tasks.training.engines.scorer`)."""
    from tasks.training.engines.tensorflow import engine

    return engine.scorer(config, model, snapshot, seed)


def build(
    config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> Engine:
    """Create the engine of a config (see `tasks.training.engines.build`)."""
    from tasks.training.engines.tensorflow import engine

    return engine.build(config, model, snapshot, plan, seed, cluster)
