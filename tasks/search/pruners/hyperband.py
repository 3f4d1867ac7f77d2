"""Hyperband: successive halving with several first rungs."""

from __future__ import annotations

import optuna.pruners

from tasks.config.tune import HyperbandPruner


def create(config: HyperbandPruner) -> optuna.pruners.HyperbandPruner:
    """Return the pruner (Li et al. 2017, Hyperband)."""
    return optuna.pruners.HyperbandPruner(
        min_resource=config.first, max_resource=config.last, reduction_factor=config.factor
    )
