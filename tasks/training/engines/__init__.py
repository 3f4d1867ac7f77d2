"""Engines, which compute a training; their interface has integers and NumPy arrays only."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from tasks.config import ModelConfig, TrainConfig
from tasks.training.group import Cluster, Group
from tasks.training.meter import StepSums

if TYPE_CHECKING:
    from tasks.data.pipeline import SnapshotReader
    from tasks.training.plan import Plan

Arrays = dict[str, NDArray[Any]]

ENGINES = dict.fromkeys(("one_device", "mirrored", "multi_worker", "tpu", "pipeline"), "tensorflow")
"""The engine of each `train.strategy.kind`: a package of this folder with a function `build`."""


class Engine(Protocol):
    """A model, its optimizer and its input on one or more devices, of one or more processes."""

    group: Group
    """The processes of the training."""

    loss: str
    """The loss that is minimised, by its name in `train.loss`."""

    watched: tuple[str, bool]
    """The name in `score` that `train.early_stopping.metric: primary` uses, and whether higher is better."""

    def seek(self, step: int) -> None:
        """Continue with the examples of global step `step`."""

    def step(self, n: int) -> StepSums:
        """Run n global steps."""
        ...

    def score(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Return means over batches by name, `loss` first, without label smoothing, class weights and dropout."""
        ...

    def weights(self) -> Arrays:
        """Return the model's variables by stable names: the state without the optimizer's."""
        ...

    def state(self) -> Arrays:
        """Return all variables that decide the next step, by stable names."""
        ...

    def load(self, state: Arrays) -> None:
        """Restore a result of `state`."""

    def close(self) -> None:
        """Release threads and devices."""


def build(
    config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int, cluster: Cluster
) -> Engine:
    """Create the engine of a config, with a model initialised by the seed."""
    module = importlib.import_module(f"{__name__}.{ENGINES[config.strategy.kind]}")
    engine: Engine = module.build(config, model, snapshot, plan, seed, cluster)
    return engine
