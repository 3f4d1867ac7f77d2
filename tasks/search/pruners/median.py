"""A trial ends that is worse than the median of the others at the same step."""

from __future__ import annotations

import optuna.pruners

from tasks.config.tune import MedianPruner


def create(config: MedianPruner) -> optuna.pruners.MedianPruner:
    """Return the pruner."""
    return optuna.pruners.MedianPruner(n_startup_trials=config.startup, n_warmup_steps=config.warmup)
