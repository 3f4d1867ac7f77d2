"""Samplers, which choose the values of a trial: a module per `tune.sampler.kind` with `create`."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from tasks.config.space import SpaceConfig
from tasks.config.tune import SamplerConfig

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SAMPLERS = {
    "tpe": "tasks.search.samplers.tpe",
    "random": "tasks.search.samplers.random",
    "grid": "tasks.search.samplers.grid",
}
"""The module of each kind, imported on use."""


class Kind(Protocol):
    """A module of a kind."""

    def create(self, config: Any, space: dict[str, SpaceConfig], seed: int, number: int) -> BaseSampler:
        """Return Optuna's sampler for the trial of a number, whose random numbers are functions of both integers."""
        ...


def make_sampler(config: SamplerConfig, space: dict[str, SpaceConfig], seed: int, number: int) -> BaseSampler:
    """Return the sampler of a config for the trial of a number."""
    kind: Kind = import_module(SAMPLERS[config.kind])
    return kind.create(config, space, seed, number)


def derived(seed: int, name: str) -> int:
    """Return a 31-bit seed for something by its name."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1
