"""Tree-structured Parzen estimator: values like those of the best trials so far."""

from __future__ import annotations

import warnings

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler

from tasks.config.space import SpaceConfig
from tasks.config.tune import TpeSampler
from tasks.search.samplers import derived


def create(config: TpeSampler, space: dict[str, SpaceConfig], seed: int, number: int) -> TPESampler:
    """Return the sampler (Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization).

    It takes trials under way for bad ones, so that parallel trials are not the same.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # of `multivariate` and `constant_liar`
        return TPESampler(
            n_startup_trials=config.startup,
            multivariate=config.multivariate,
            constant_liar=True,
            seed=derived(seed, f"trial/{number}"),
        )
