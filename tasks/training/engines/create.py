"""The engine of a training: which one it is, its scorer, and the processes that serve it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.models import ModelConfig
from tasks.training.config import TrainConfig
from tasks.training.engines import Engine, Scorer
from tasks.training.group import Cluster

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader
    from tasks.training.plan import Plan


def build(
    config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> Engine:
    """Create the engine of a config, with a model initialised by the seed."""
    if config.strategy.asynchronous:
        from tasks.training.engines.parameter_server import engine as parameter_servers

        return parameter_servers.build(config, model, snapshot, plan, seed, cluster)
    from tasks.training.engines.tensorflow import engine

    return engine.build(config, model, snapshot, plan, seed, cluster)


def scorer(config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, seed: int) -> Scorer:
    """Create what scores weights of a training in another process, as the engine's `score` does."""
    from tasks.training.engines.tensorflow import engine

    return engine.scorer(config, model, snapshot, seed)


def serve(config: TrainConfig, cluster: Cluster, stopping: Callable[[], int]) -> None:
    """Work for the chief until this process is killed, as a process whose role serves; raises `Stopped`."""
    from tasks.training.engines.parameter_server import engine

    engine.serve(config, cluster, stopping)
