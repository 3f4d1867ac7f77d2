"""Pruners, which end trials early: a module per `tune.pruner.kind` with `create`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from tasks.config.tune import PrunerConfig

if TYPE_CHECKING:
    from optuna.pruners import BasePruner

PRUNERS = {
    "none": "tasks.search.pruners.none",
    "median": "tasks.search.pruners.median",
    "halving": "tasks.search.pruners.halving",
    "hyperband": "tasks.search.pruners.hyperband",
}
"""The module of each kind, imported on use."""


class Kind(Protocol):
    """A module of a kind."""

    def create(self, config: Any) -> BasePruner:
        """Return Optuna's pruner, whose steps are those of the training."""
        ...


def make_pruner(config: PrunerConfig) -> BasePruner:
    """Return the pruner of a config."""
    kind: Kind = import_module(PRUNERS[config.kind])
    return kind.create(config)
