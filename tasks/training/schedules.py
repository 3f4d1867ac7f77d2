"""Schedules: the learning rate of each step, as a factor of the peak."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LISTED, Conflict, Section
from tasks.config.kinds import Kind, any_of

Factor = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Schedule(Kind):
    """The learning rate by step."""

    depends_on_the_end: ClassVar[bool] = True
    """Whether the rate of a step depends on the number of steps."""

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the peak learning rate at a step of so many."""
        raise NotImplementedError

    def check(self, steps: int) -> None:
        """Raise `Conflict` where a training of so many steps has no room for the schedule."""


class Warmup(Schedule):
    """What all schedules with a linear warm-up have."""

    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up; step k of them has (k + 1) / warmup of `train.learning_rate`, the last one all of it."""

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the peak learning rate at a step of so many."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return self.after(step - max(self.warmup - 1, 0), steps - 1 - max(self.warmup - 1, 0))

    def after(self, step: int, last: int) -> float:
        """Return the factor `step` steps after the peak, of `last` to the training's last step."""
        raise NotImplementedError

    def check(self, steps: int) -> None:
        """Raise `Conflict` where a training of so many steps has no room for the schedule."""
        if self.warmup > steps:
            raise Conflict("warmup", self.warmup, f"must not pass the {steps} steps", f"lower it to {steps}")


class Constant(Warmup):
    """The peak learning rate at all steps after the warm-up."""

    depends_on_the_end: ClassVar[bool] = False

    kind: Literal["constant"] = "constant"
    """The decay after the warm-up."""

    def after(self, step: int, last: int) -> float:
        """Return 1."""
        return 1.0


class Falling(Warmup):
    """What the schedules have that fall from the warm-up's end to the last step."""

    end: Factor = 0.0
    """The rate of the last step as a share of `train.learning_rate`. Where the warm-up takes every step, or there is
    only one, there is no decay."""

    def after(self, step: int, last: int) -> float:
        """Return the factor, from 1 to `end`."""
        return 1.0 if last == 0 else self.end + (1 - self.end) * self.left(step / last)

    def left(self, done: float) -> float:
        """Return the share of the fall that is left when a share of its steps is done."""
        raise NotImplementedError


class Linear(Falling):
    """A linear decay to `end` at the last step."""

    kind: Literal["linear"] = "linear"
    """The decay after the warm-up."""

    def left(self, done: float) -> float:
        """Return the rest."""
        return 1 - done


class Cosine(Falling):
    """Half a cosine to `end` at the last step (Loshchilov and Hutter, arXiv 1608.03983, without restarts)."""

    kind: Literal["cosine"] = "cosine"
    """The decay after the warm-up."""

    def left(self, done: float) -> float:
        """Return half a cosine from 1 to 0."""
        return 0.5 * (1 + math.cos(math.pi * done))


class WarmupStableDecay(Falling):
    """The peak until `decay` of the steps after the warm-up are left, then a linear decay to `end` (Hu et al., arXiv
    2404.06395)."""

    kind: Literal["wsd"] = "wsd"
    """The decay after the warm-up."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the steps after the warm-up in which the rate falls."""

    def left(self, done: float) -> float:
        """Return 1, and in the last `decay` of the steps the rest of them."""
        return min(1.0, (1 - done) / self.decay)


class Piecewise(Warmup):
    """A constant rate between steps."""

    depends_on_the_end: ClassVar[bool] = False

    kind: Literal["piecewise"] = "piecewise"
    """The decay after the warm-up."""
    boundaries: Annotated[tuple[Annotated[int, Field(ge=1)], ...], LISTED, Field(min_length=1)]
    """Steps at which the rate changes, ascending."""
    factors: Annotated[tuple[Factor, ...], LISTED, Field(min_length=1)]
    """The rate from each of these steps on, as a share of `train.learning_rate`."""

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the peak learning rate at a step."""
        if step < self.warmup:
            return super().factor(step, steps)
        return (1.0, *self.factors)[bisect_right(self.boundaries, step)]

    def check(self, steps: int) -> None:
        """Raise `Conflict` where a training of so many steps does not come to a boundary."""
        super().check(steps)
        if self.boundaries[-1] >= steps:
            rule = f"the training ends before it, after {steps} steps"
            raise Conflict("boundaries", self.boundaries[-1], rule, "leave it out, or raise train.steps")

    @model_validator(mode="after")
    def boundaries_ascend(self) -> Piecewise:
        if list(self.boundaries) != sorted({*self.boundaries}):
            raise Conflict("boundaries", list(self.boundaries), "must ascend", "sort them")
        if len(self.factors) != len(self.boundaries):
            rule = f"each of the {len(self.boundaries)} boundaries has one"
            raise Conflict("factors", list(self.factors), rule, f"give {len(self.boundaries)}")
        if self.boundaries[0] <= self.warmup:
            raise Conflict(
                "boundaries", self.boundaries[0], f"is within the warm-up of {self.warmup} steps", "raise it"
            )
        return self


class OneCycle(Schedule):
    """Half a cosine up from `start` to the peak, then one down to `end` (Smith and Topin, arXiv 1708.07120)."""

    kind: Literal["one_cycle"] = "one_cycle"
    """The decay after the warm-up."""
    rise: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the steps before the peak."""
    start: Annotated[float, Field(gt=0, le=1)] = 0.04
    """The rate of the first step as a share of `train.learning_rate`."""
    end: Factor = 0.0
    """The rate of the last step as a share of `train.learning_rate`."""

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the peak learning rate at a step of so many."""
        last = max(steps - 1, 1)
        peak = min(max(round(self.rise * last), 1), last)
        if step <= peak:
            return self.start + (1 - self.start) * 0.5 * (1 - math.cos(math.pi * step / peak))
        return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * (step - peak) / (last - peak)))


def _cosine(values: Any) -> Any:
    """Return the values of a schedule with the default kind where they name none, as `{warmup: 50}`."""
    return {"kind": "cosine", **values} if isinstance(values, dict) else values


if TYPE_CHECKING:
    ScheduleConfig = Schedule
else:
    ScheduleConfig = Annotated[any_of(Schedule.kinds().values()), BeforeValidator(_cosine)]


class RateScaling(Section):
    """Scales the peak learning rate with the batch: it is then the one that suits a batch of `batch_size`."""

    kind: Literal["linear", "sqrt"] = "linear"
    """`linear`: in proportion to the batch (Goyal et al., arXiv 1706.02677); `sqrt`: to its root (Krizhevsky, arXiv
    1404.5997), usual with Adam."""
    batch_size: Annotated[int, Field(ge=1, le=2**24)]
    """The batch that `train.learning_rate` was chosen for."""

    def factor(self, batch_size: int) -> float:
        """Return the factor of the learning rate for a batch."""
        ratio = batch_size / self.batch_size
        return float(ratio if self.kind == "linear" else ratio**0.5)
