"""Random values."""

from __future__ import annotations

from optuna.samplers import RandomSampler

from tasks.config import tune
from tasks.config.space import SpaceConfig
from tasks.search.samplers import derived


def create(config: tune.RandomSampler, space: dict[str, SpaceConfig], seed: int, number: int) -> RandomSampler:
    """Return the sampler."""
    return RandomSampler(derived(seed, f"trial/{number}"))
