"""Engines: what computes a training, behind a narrow door of integers and numpy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from tasks.config import ModelConfig, TrainConfig
from tasks.training.meter import StepSums

if TYPE_CHECKING:
    from tasks.data.pipeline import SnapshotReader
    from tasks.training.plan import Plan

Arrays = dict[str, NDArray[Any]]

ENGINES = {"one_device": "tensorflow", "mirrored": "tensorflow"}
"""The engine of each `train.strategy.kind`: a package here with a function `build`."""


class Engine(Protocol):
    """A model, its optimizer and its data on some devices."""

    loss: str
    """The loss that is minimised, by its name in the config."""

    watched: tuple[str, bool]
    """The name in `score` that stands for the task's primary metric, and whether higher is better."""

    def seek(self, step: int) -> None:
        """Have the examples of global step `step` come next."""

    def step(self, n: int) -> StepSums:
        """Take n global steps."""
        ...

    def score(self, batches: Iterable[Arrays]) -> dict[str, float]:
        """Means over batches by name, `loss` first, without smoothing, class weights or dropout."""
        ...

    def weights(self) -> Arrays:
        """What the model answers with, by a stable name: the state without the optimizer's part."""
        ...

    def state(self) -> Arrays:
        """Everything that decides the next step, by a stable name."""
        ...

    def load(self, state: Arrays) -> None:
        """Be as it was when this state was taken."""

    def close(self) -> None:
        """Let threads and devices go."""


def build(config: TrainConfig, model: ModelConfig, snapshot: SnapshotReader, plan: Plan, seed: int) -> Engine:
    """The engine of a config, with a model whose weights are a function of the seed."""
    module = importlib.import_module(f"{__name__}.{ENGINES[config.strategy.kind]}")
    engine: Engine = module.build(config, model, snapshot, plan, seed)
    return engine
