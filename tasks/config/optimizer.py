"""Update rules and learning rate schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import BY_KIND, Conflict, Section

Decay = Annotated[float, Field(ge=0, lt=1)]


class Adam(Section):
    """Adam (Kingma and Ba, arXiv 1412.6980)."""

    kind: Literal["adam"] = "adam"
    """The update rule."""
    beta_1: Decay = 0.9
    """Decay of the first moment."""
    beta_2: Decay = 0.999
    """Decay of the second moment."""
    epsilon: Annotated[float, Field(gt=0, lt=1)] = 1e-7
    """Added to the denominator."""


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

    kind: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    """The update rule."""
    weight_decay: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Share of the learning rate by which matrices shrink at each step; vectors (bias, norm) and embeddings stay."""


class Sgd(Section):
    """Stochastic gradient descent, with momentum where it is not 0."""

    kind: Literal["sgd"] = "sgd"
    """The update rule."""
    momentum: Decay = 0.0
    """Decay of the velocity."""
    nesterov: bool = False
    """Nesterov momentum (Nesterov, 1983)."""

    @model_validator(mode="after")
    def nesterov_needs_momentum(self) -> Sgd:
        if self.nesterov and self.momentum == 0:
            raise Conflict("nesterov", True, "is ignored without momentum", "set momentum above 0 or nesterov to false")
        return self


OptimizerConfig = Annotated[Adam | AdamW | Sgd, BY_KIND]


class Schedule(Section):
    """The learning rate by step: linear warm-up over `warmup` steps, then a decay to `end` at the last step."""

    kind: Literal["constant", "linear", "cosine"] = "cosine"
    """The decay after the warm-up."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up; step k of them has (k + 1) / warmup of `train.learning_rate`, the last one all of it."""
    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The rate of the last step as a share of `train.learning_rate`; not for `constant`. Where the warm-up takes every
    step, or there is only one, there is no decay."""

    @model_validator(mode="after")
    def constant_has_no_end(self) -> Schedule:
        if self.kind == "constant" and self.end:
            raise Conflict(
                "end", self.end, "is ignored by a constant schedule", "leave it out, or choose linear or cosine"
            )
        return self
