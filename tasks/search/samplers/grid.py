"""Every combination of the values."""

from __future__ import annotations

from optuna.samplers import GridSampler

from tasks.config import tune
from tasks.config.space import SpaceConfig
from tasks.search.samplers import derived
from tasks.search.study import encoded


def create(config: tune.GridSampler, space: dict[str, SpaceConfig], seed: int, number: int) -> GridSampler:
    """Return the sampler; the trial of a number has the combination of this number, in an order by the seed."""
    grid = {key: encoded(values, values.points or []) for key, values in space.items()}
    return GridSampler(grid, derived(seed, "grid"))
