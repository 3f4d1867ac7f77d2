"""What a tuning may set a key of the config to: a range of numbers, or one of some values, and how Optuna stores it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from tasks.config.base import LISTED, Conflict
from tasks.config.kinds import Kind, any_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def exact(number: float) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth, which no binary fraction is."""
    return Fraction(str(number))


class Space(Kind):
    """The values that a trial may set a key to."""

    @property
    def examples(self) -> list[Any]:
        """Values that the key must take for the space to be one of its; the labels of an axis."""
        raise NotImplementedError

    @property
    def points(self) -> list[Any] | None:
        """All values in order; None where they are not finite in number."""
        raise NotImplementedError

    def position(self, value: Any) -> float:
        """Return where a value is on an axis, 0 to 1."""
        raise NotImplementedError

    def distribution(self) -> BaseDistribution:
        """Return it as Optuna has it."""
        raise NotImplementedError

    def encoded(self, values: Sequence[Any]) -> list[Any]:
        """Return values as Optuna stores them."""
        return list(values)

    def decoded(self, value: Any) -> Any:
        """Return a value from what Optuna stores."""
        return value


class Range(Space):
    """What both ranges have."""

    if TYPE_CHECKING:
        low: float
        high: float
        log: bool
        step: float | None

    @property
    def examples(self) -> list[Any]:
        """The ends: values that the key must take for the range to be one of its; the labels of an axis."""
        return [self.low, self.high]

    def position(self, value: float) -> float:
        """Return where a value is between the ends, 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return (value - low) / (high - low)

    @model_validator(mode="after")
    def has_values(self) -> Range:
        low, high, step = self.low, self.high, self.step
        if not low < high:
            raise Conflict("high", high, f"must be above low = {low:g}", "exchange or change them")
        if self.log and low <= 0:
            raise Conflict("low", low, "must be above 0 where log is true", "raise it, or leave out log")
        if step is not None:
            first, last, distance = map(exact, (low, high, step))
            if distance > last - first:
                raise Conflict("step", step, f"is larger than the range, {high - low:g}", "lower it")
            if beyond := (last - first) % distance:
                below, above = (type(high)(each) for each in (last - beyond, last - beyond + distance))
                rule = f"is not reached from low = {low} by steps of {step}"
                raise Conflict("high", high, rule, f"use {below} or {above}")
        if self.log and step != type(self).model_fields["step"].default:
            raise Conflict("step", step, "is for a linear scale", "leave it out, or leave out log")
        return self


class FloatRange(Range):
    """Numbers from `low` to `high`."""

    kind: Literal["float"] = "float"
    """The values of the key."""

    low: float
    """The smallest value."""

    high: float
    """The largest value."""

    log: bool = False
    """Whether to sample on a logarithmic scale."""

    step: Annotated[float, Field(gt=0)] | None = None
    """Distance of the values from `low` on; default: any number of the range."""

    @property
    def points(self) -> list[Any] | None:
        """All values in order; None where they are not finite in number."""
        if self.step is None:
            return None
        low, high, step = map(exact, (self.low, self.high, self.step))
        return [float(low + number * step) for number in range((high - low) // step + 1)]

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)


class IntRange(Range):
    """Integers from `low` to `high`."""

    kind: Literal["int"] = "int"
    """The values of the key."""

    low: int
    """The smallest value."""

    high: int
    """The largest value."""

    log: bool = False
    """Whether to sample on a logarithmic scale."""

    step: Annotated[int, Field(ge=1)] = 1
    """Distance of the values from `low` on."""

    @property
    def points(self) -> list[Any] | None:
        """All values in order."""
        return list(range(self.low, self.high + 1, self.step))

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log, step=self.step)


class Choice(Space):
    """One of some values."""

    kind: Literal["choice"] = "choice"
    """The values of the key."""

    values: Annotated[tuple[Any, ...], LISTED, Field(min_length=1)]
    """The values, of any type that the key takes: numbers, words, lists, sections."""

    @property
    def examples(self) -> list[Any]:
        """All values; the labels of an axis."""
        return list(self.values)

    def position(self, value: Any) -> float:
        """Return where a value is on an axis, 0 to 1."""
        return self.values.index(value) / (len(self.values) - 1) if len(self.values) > 1 else 0.5

    @property
    def points(self) -> list[Any] | None:
        """All values in order."""
        return list(self.values)

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.encoded(self.values))

    def encoded(self, values: Sequence[Any]) -> list[Any]:
        """Return JSON texts, as Optuna stores no lists; keys are sorted, as in the digest of the study."""
        return [json.dumps(value, sort_keys=True) for value in values]

    def decoded(self, value: Any) -> Any:
        return json.loads(value)


if TYPE_CHECKING:
    SpaceConfig = Space
else:
    SpaceConfig = any_of(Space.kinds().values())
"""What a key may be set to."""


def distributions(space: Mapping[str, Space]) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions by key, sorted: random numbers are drawn in this order."""
    return {key: space[key].distribution() for key in sorted(space)}


def decoded(space: Mapping[str, Space], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trial's values from those that Optuna stores, by key."""
    return {key: space[key].decoded(params[key]) for key in sorted(params)}
