"""Asynchronous successive halving."""

from __future__ import annotations

from optuna.pruners import SuccessiveHalvingPruner

from tasks.config.tune import HalvingPruner


def create(config: HalvingPruner) -> SuccessiveHalvingPruner:
    """Return the pruner (Li et al. 2018, A System for Massively Parallel Hyperparameter Tuning)."""
    return SuccessiveHalvingPruner(min_resource=config.first, reduction_factor=config.factor)
