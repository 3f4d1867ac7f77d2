"""Samplers, which choose the values of a trial, and pruners, which end trials early: a class a kind, with Optuna's."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import Conflict
from tasks.config.kinds import Kind, any_of
from tasks.search.space import Space

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


class Sampler(Kind):
    """How the values of a trial are chosen."""

    exhausts: ClassVar[bool] = False
    """Whether it has a last trial."""

    def sampler(self, space: Mapping[str, Space], seed: int, number: int) -> BaseSampler:
        """Return Optuna's sampler for the trial of a number, whose random numbers are functions of both integers."""
        raise NotImplementedError


class TpeSampler(Sampler):
    """Tree-structured Parzen estimator (Bergstra et al. 2011): values like those of the best trials so far."""

    kind: Literal["tpe"] = "tpe"
    """How the values of a trial are chosen."""

    startup: Annotated[int, Field(ge=1)] = 10
    """Trials with random values before it begins."""

    multivariate: bool = False
    """Whether values are chosen together instead of key by key."""

    def sampler(self, space: Mapping[str, Space], seed: int, number: int) -> BaseSampler:
        """Return the sampler. It takes trials under way for bad ones, so that parallel trials are not the same."""
        from optuna.exceptions import ExperimentalWarning
        from optuna.samplers import TPESampler

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # of `multivariate` and `constant_liar`
            return TPESampler(
                n_startup_trials=self.startup,
                multivariate=self.multivariate,
                constant_liar=True,
                seed=derived(seed, f"trial/{number}"),
            )


class RandomSampler(Sampler):
    """Random values."""

    kind: Literal["random"] = "random"
    """How the values of a trial are chosen."""

    def sampler(self, space: Mapping[str, Space], seed: int, number: int) -> BaseSampler:
        from optuna.samplers import RandomSampler

        return RandomSampler(derived(seed, f"trial/{number}"))


class GridSampler(Sampler):
    """Every combination of the values, once each, in random order."""

    exhausts: ClassVar[bool] = True

    kind: Literal["grid"] = "grid"
    """How the values of a trial are chosen."""

    def sampler(self, space: Mapping[str, Space], seed: int, number: int) -> BaseSampler:
        """Return the sampler; the trial of a number has the combination of this number, in an order by the seed."""
        from optuna.samplers import GridSampler

        grid = {key: values.encoded(values.points or []) for key, values in space.items()}
        return GridSampler(grid, derived(seed, "grid"))


if TYPE_CHECKING:
    SamplerConfig = Sampler
else:
    SamplerConfig = any_of(Sampler.kinds().values())


def derived(seed: int, name: str) -> int:
    """Return a 31-bit seed for something by its name."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


class Pruner(Kind):
    """Which trials end early."""

    begins: ClassVar[str | None] = None
    """The setting with the step from which on trials end early."""

    def pruner(self) -> BasePruner:
        """Return Optuna's pruner, whose steps are those of the training."""
        raise NotImplementedError

    def fit_steps(self, steps: int) -> None:
        """Raise `Conflict` where it would end none of the trials of so many steps."""
        if self.begins is not None and (first := getattr(self, self.begins)) >= steps:
            rule = f"a training ends before it, after {steps} steps"
            raise Conflict(self.begins, first, rule, "lower it, raise train.steps, or use kind none")


class NoPruner(Pruner):
    """Every trial trains to its end."""

    kind: Literal["none"] = "none"
    """Which trials end early."""

    def pruner(self) -> BasePruner:
        from optuna.pruners import NopPruner

        return NopPruner()


class MedianPruner(Pruner):
    """A trial ends whose best score so far is worse than the median of the earlier trials at the same step."""

    begins: ClassVar[str | None] = "warmup"

    kind: Literal["median"] = "median"
    """Which trials end early."""

    startup: Annotated[int, Field(ge=0)] = 5
    """Trials that train to their end before it begins."""

    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of a training before which it does not end."""

    def pruner(self) -> BasePruner:
        from optuna.pruners import MedianPruner

        return MedianPruner(n_startup_trials=self.startup, n_warmup_steps=self.warmup)


class HalvingPruner(Pruner):
    """Asynchronous successive halving (ASHA, Li et al. 2018): at each rung the best share of the trials goes on."""

    begins: ClassVar[str | None] = "first"

    kind: Literal["halving"] = "halving"
    """Which trials end early."""

    first: Annotated[int, Field(ge=1)]
    """The step of the first rung; an evaluation at or after it decides."""

    factor: Annotated[int, Field(ge=2)] = 4
    """One of so many trials goes on from a rung, and the next rung is at so many times its step."""

    def pruner(self) -> BasePruner:
        from optuna.pruners import SuccessiveHalvingPruner

        return SuccessiveHalvingPruner(min_resource=self.first, reduction_factor=self.factor)


class HyperbandPruner(Pruner):
    """Hyperband (Li et al. 2017): successive halving with several first rungs."""

    begins: ClassVar[str | None] = "first"

    kind: Literal["hyperband"] = "hyperband"
    """Which trials end early."""

    first: Annotated[int, Field(ge=1)]
    """The step of the earliest rung."""

    last: Annotated[int, Field(ge=1)]
    """The steps of a whole training."""

    factor: Annotated[int, Field(ge=2)] = 3
    """One of so many trials goes on from a rung, and the next rung is at so many times its step."""

    @model_validator(mode="after")
    def rungs_ascend(self) -> HyperbandPruner:
        if self.first >= self.last:
            raise Conflict("first", self.first, f"must be below last = {self.last}", "exchange or change them")
        return self

    def pruner(self) -> BasePruner:
        from optuna.pruners import HyperbandPruner

        return HyperbandPruner(min_resource=self.first, max_resource=self.last, reduction_factor=self.factor)


if TYPE_CHECKING:
    PrunerConfig = Pruner
else:
    PrunerConfig = any_of(Pruner.kinds().values())
