"""The engine of asynchronous training: servers hold the parameters, workers compute the steps.

Every step is computed by one worker on a whole batch: it reads the parameters, and its update is applied when it is
ready, whatever others have applied meanwhile (Dean et al., NIPS 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.config.train import TrainConfig
from tasks.models import ModelConfig

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader
    from tasks.training.engines import Engine, Scorer
    from tasks.training.group import Cluster
    from tasks.training.plan import Plan


def build(
    config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> Engine:
    """Create the engine of the chief (see `tasks.training.engines.build`)."""
    from tasks.training.engines.parameter_server import engine

    return engine.build(config, model, snapshot, plan, seed, cluster)


def scorer(config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, seed: int) -> Scorer:
    """Create what scores weights in another process (see `tasks.training.engines.scorer`)."""
    from tasks.training.engines.tensorflow import engine

    return engine.scorer(config, model, snapshot, seed)


def serve(config: TrainConfig, cluster: Cluster, stopping: Callable[[], int]) -> None:
    """Serve as a worker or a server until this process is killed, or `stopping`."""
    from tasks.training.engines.parameter_server import engine

    engine.serve(config, cluster, stopping)
