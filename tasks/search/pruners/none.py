"""No trial ends early."""

from __future__ import annotations

from optuna.pruners import NopPruner

from tasks.config.tune import NoPruner


def create(config: NoPruner) -> NopPruner:
    """Return the pruner."""
    return NopPruner()
