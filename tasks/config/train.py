"""The arithmetic of a training, and, marked as such, its layout."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tasks.config.base import NOT_IDENTITY, Section

Rate = Annotated[float, Field(gt=0, le=10)]
Steps = Annotated[int, Field(ge=1, le=10**12)]
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
    """Share of the learning rate by which matrices shrink at each step; vectors (bias, norm) are left alone."""


class Sgd(Section):
    """Stochastic gradient descent, with momentum where it is not 0."""

    kind: Literal["sgd"] = "sgd"
    """The update rule."""
    momentum: Decay = 0.0
    """Decay of the velocity."""
    nesterov: bool = False
    """Look ahead along the velocity (Nesterov, 1983)."""

    @model_validator(mode="after")
    def nesterov_needs_momentum(self) -> Sgd:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov is ignored without momentum; set momentum above 0 or nesterov to false")
        return self


class Schedule(Section):
    """The learning rate: up from 0 over `warmup` steps, then down to `end` as `kind` says, at the last step."""

    kind: Literal["constant", "linear", "cosine"] = "cosine"
    """The way down after the warm-up."""
    rate: Rate = 1e-3
    """The highest learning rate."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Steps of linear warm-up; step k of them has the rate (k + 1) / warmup of the highest."""
    end: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The last rate as a share of the highest; not for `constant`."""

    @model_validator(mode="after")
    def constant_has_no_end(self) -> Schedule:
        if self.kind == "constant" and self.end:
            raise ValueError("end is ignored by a constant schedule; leave it out or choose linear or cosine")
        return self


class OneDevice(Section):
    """One process, one device."""

    kind: Literal["one_device"] = "one_device"
    """How a step is spread over devices."""


class CheckpointConfig(Section):
    """When training's state is committed."""

    every: Steps = 100
    """Steps between checkpoints."""
    keep: Annotated[int, Field(ge=1)] = 2
    """How many of the newest are kept."""


class TrainConfig(Section):
    """How a model is fitted."""

    steps: Steps | None = None
    """Global steps to take; either this or `epochs`."""

    epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the train split, ceil(epochs x examples / batch_size) steps; either this or `steps`."""

    batch_size: Annotated[int, Field(ge=1, le=2**24)] = 64
    """Examples of a global step, over all replicas."""

    precision: Literal["float32"] = "float32"
    """Type of activations and gradients."""

    loss: Literal["cross_entropy"] | None = None
    """The loss; default: the task's."""

    optimizer: Annotated[Adam | AdamW | Sgd, Field(discriminator="kind")] = Adam()
    """The update rule."""

    schedule: Schedule = Schedule()
    """The learning rate by step."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest global norm of the gradient; larger ones are scaled down to it."""

    strategy: Annotated[OneDevice, NOT_IDENTITY] = OneDevice()
    """The layout of a step over devices."""

    checkpoint: Annotated[CheckpointConfig, NOT_IDENTITY] = CheckpointConfig()
    """When the state is committed."""

    log_every: Annotated[Steps, NOT_IDENTITY] = 20
    """Steps between points of the training curves."""

    evaluate_every: Annotated[Steps, NOT_IDENTITY] = 100
    """Steps between evaluations on the validation split."""

    @model_validator(mode="after")
    def steps_or_epochs(self) -> TrainConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("needs exactly one of steps and epochs; set one and leave the other out")
        if self.steps is not None and self.schedule.warmup > self.steps:
            raise ValueError(
                f"schedule.warmup ({self.schedule.warmup}) must not pass steps ({self.steps}); lower it or raise steps"
            )
        return self
