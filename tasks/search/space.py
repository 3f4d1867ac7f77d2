"""The values of a space in Optuna's distributions. Of a choice they are JSON texts, as Optuna stores no lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tasks.config.space import Choice, FloatRange, IntRange, SpaceConfig


def of_float(space: FloatRange) -> FloatDistribution:
    """Return the distribution of a range."""
    return FloatDistribution(space.low, space.high, log=space.log, step=space.step)


def of_int(space: IntRange) -> IntDistribution:
    """Return the distribution of a range of integers."""
    return IntDistribution(space.low, space.high, log=space.log, step=space.step)


def of_choice(space: Choice) -> CategoricalDistribution:
    """Return the distribution of a choice."""
    return CategoricalDistribution(encoded(space, space.values))


DISTRIBUTIONS: dict[str, Callable[[Any], BaseDistribution]] = {"float": of_float, "int": of_int, "choice": of_choice}
"""The function of each kind."""


def distributions(space: Mapping[str, SpaceConfig]) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions by key, sorted: random numbers are drawn in this order."""
    return {key: DISTRIBUTIONS[space[key].kind](space[key]) for key in sorted(space)}


def encoded(space: SpaceConfig, values: Sequence[Any]) -> list[Any]:
    """Return values as Optuna stores them; keys are sorted, as in the digest of the study."""
    return [json.dumps(value, sort_keys=True) for value in values] if isinstance(space, Choice) else list(values)


def decoded(space: Mapping[str, SpaceConfig], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial's values from those that Optuna stores, by key."""
    return {key: json.loads(params[key]) if isinstance(space[key], Choice) else params[key] for key in sorted(params)}
