"""The search of a tuning: what is tried, how it is judged, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from tasks.config.base import NOT_IDENTITY, PATTERNS, Conflict, Section
from tasks.config.notify import Secret
from tasks.environment.secrets import REMEDY, RULE, unreferenced
from tasks.search.choosing import MedianPruner, PrunerConfig, SamplerConfig, TpeSampler
from tasks.search.space import SpaceConfig

KEY = r"^[a-z]\w*(\.\w+)*$"
PATTERNS[KEY] = "must be a key of the config, such as train.learning_rate"
Key = Annotated[str, StringConstraints(pattern=KEY)]
"""A key of the config, as a flag has it."""

MOST = 10_000
"""Trials of a study, at most."""


class TuneConfig(Section):
    """The flow `tuning`: trainings with other values of some keys, the best of which is released."""

    space: Annotated[dict[Key, SpaceConfig], Field(min_length=1)]
    """The keys of `model` and `train` that a trial sets, and their values."""

    metric: Literal["loss", "primary"] = "primary"
    """What is compared, on the validation split: the loss, or `evaluate.primary`."""

    direction: Annotated[Literal["minimize", "maximize"] | None, NOT_IDENTITY] = None
    """Which values are better; default: that of the metric. The other one is refused."""

    sampler: SamplerConfig = TpeSampler()
    """How the values of a trial are chosen; with one trial at a time a function of `seed` and the trials before it."""

    pruner: PrunerConfig = MedianPruner()
    """Which trials end early, decided at the evaluations of a training (`train.evaluate_every`)."""

    trials: Annotated[Annotated[int, Field(ge=1, le=MOST)] | None, NOT_IDENTITY] = None
    """Trials of the study, with those of earlier runs; default: no limit, or all combinations of a grid."""

    minutes: Annotated[Annotated[float, Field(gt=0)] | None, NOT_IDENTITY] = None
    """Minutes after which no further trial begins, over all attempts of the run; default: no limit."""

    parallel: Annotated[int, NOT_IDENTITY, Field(ge=1, le=64)] = 1
    """Trials at the same time, which share the threads of the run. With more than one the next values depend on which
    trial ends first."""

    storage: Annotated[Secret | None, NOT_IDENTITY] = None
    """Reference to the address of the PostgreSQL database of the study; default: a SQLite file in the home."""

    @field_validator("space", mode="before")
    @classmethod
    def keys_are_dotted(cls, space: Any) -> Any:
        """Return nested mappings, which flags make (`--tune.space.train.steps`), by dotted key; they come last."""
        if not isinstance(space, dict):
            return space
        dotted: dict[Any, Any] = {}
        for key, values in _leaves(space):
            dotted[key] = {**dotted[key], **values} if isinstance(dotted.get(key), dict) else values
        return dotted

    @model_validator(mode="after")
    def secrets_are_references(self) -> TuneConfig:
        if unreferenced(self.storage):
            raise Conflict("storage", "an address written out", RULE, REMEDY)
        return self

    @model_validator(mode="after")
    def it_ends(self) -> TuneConfig:
        if self.trials is None and self.minutes is None and not self.sampler.exhausts:
            raise Conflict("trials", "nothing", "a search needs an end", "set tune.trials, tune.minutes or both")
        return self

    @model_validator(mode="after")
    def a_grid_has_points(self) -> TuneConfig:
        if not self.sampler.exhausts:
            return self
        for key, values in self.space.items():
            if values.points is None:
                rule = f"a {self.sampler.kind} needs a finite number of values"
                raise Conflict(f"space.{key}", "any number of a range", rule, "give a step, or a choice of values")
        if self.combinations > MOST:
            rule = f"a grid has at most {MOST:,} trials"
            raise Conflict("space", f"{self.combinations:,} combinations", rule, "use fewer values, or another sampler")
        return self

    @property
    def combinations(self) -> int:
        """The number of combinations of a grid."""
        return math.prod(len(values.points or ()) for values in self.space.values())

    @property
    def most(self) -> int:
        """The number of trials after which the study ends; `MOST` where minutes alone limit it."""
        limits = [self.trials or MOST, *([self.combinations] if self.sampler.exhausts else [])]
        return min(limits)

    def judged_by(self, watched: tuple[str, bool]) -> tuple[str, bool]:
        """Return the name of the metric in the curves of the validation split, and whether higher is better.

        `watched` is what stands there for the primary metric (`Config.watched`).
        """
        return watched if self.metric == "primary" else ("loss", False)

    def fit(self, watched: tuple[str, bool]) -> None:
        """Raise `Conflict` for a direction in which the metric gets worse."""
        name, higher = self.judged_by(watched)
        natural = "maximize" if higher else "minimize"
        if self.direction not in (None, natural):
            better = "higher" if higher else "lower"
            rule = f"{name.replace('_', ' ')} is better where it is {better}"
            raise Conflict("tune.direction", self.direction, rule, f"leave it out, or use {natural}")

    def fit_steps(self, steps: int | None) -> None:
        """Raise `Conflict` for a pruner that would begin after the end of each training.

        Args:
            steps: `train.steps`, where the config has it; a trial may have others.
        """
        if steps is None or "train" in self.space:
            return
        searched = self.space.get("train.steps")
        most = max(searched.examples) if searched is not None else steps
        try:
            self.pruner.fit_steps(most)
        except Conflict as misfit:
            raise Conflict(f"tune.pruner.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None


def _leaves(space: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the mappings that have no mapping in them, by dotted key, those at the top first."""
    nested = {key: values for key, values in space.items() if _is_nested(values)}
    yield from ((key, values) for key, values in space.items() if key not in nested)
    for key, values in nested.items():
        yield from ((f"{key}.{inner}", leaf) for inner, leaf in _leaves(values))


def _is_nested(values: Any) -> bool:
    return isinstance(values, dict) and any(isinstance(value, dict) for value in values.values())


Values = Mapping[str, object]
"""The values of a trial by key."""
