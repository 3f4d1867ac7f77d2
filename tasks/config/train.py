"""The arithmetic of a training, and, marked as such, its layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import BY_KIND, LATER, NOT_IDENTITY, Conflict, Section
from tasks.config.task import TASKS, check_options

Loss = Literal["cross_entropy", "binary_cross_entropy", "squared_error", "absolute_error"]

Precision = Literal["float32", "bfloat16", "float16"]

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


class Strategy(Section):
    """The distribution of a step over devices."""

    compiled: ClassVar[bool] = True
    """Whether `train.jit` can compile its step."""

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return 1

    @property
    def devices_of_each(self) -> int:
        """Devices of each process: the field `devices` of the strategies that have it."""
        return getattr(self, "devices", 1)

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.processes * self.devices_of_each

    @property
    def micro_batches_of_each(self) -> int:
        """Micro-batches that a replica computes at once: the field `micro_batches` of the strategies that have it."""
        return getattr(self, "micro_batches", 1)

    @property
    def as_tested(self) -> Strategy:
        """The strategy with which its arithmetic is tested (`tasks.stage.self_tests`)."""
        return self


class OneDevice(Strategy):
    """One process, one device."""

    kind: Literal["one_device"] = "one_device"
    """Distribution of a step over devices."""


class Mirrored(Strategy):
    """One process, several devices of one host, each with a copy of the model (tf.distribute.MirroredStrategy)."""

    kind: Literal["mirrored"] = "mirrored"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices; without that many accelerators, logical ones of the CPU."""


class MultiWorker(Strategy):
    """Several processes, each with a copy of the model on each of its devices
    (tf.distribute.MultiWorkerMirroredStrategy). Every process reads its slice of each global batch."""

    kind: Literal["multi_worker"] = "multi_worker"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=2, le=1024)] = 2
    """Processes; they share the CPU threads of a host."""
    devices: Annotated[int, Field(ge=1, le=64)] = 1
    """Accelerators of each process; 1 on a host without accelerators."""
    communication: Literal["auto", "ring", "nccl"] = "auto"
    """How gradients are summed: `nccl` between NVIDIA GPUs, `ring` also between CPUs."""

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return self.workers


class Tpu(Strategy):
    """The cores of a TPU, each with a copy of the model (tf.distribute.TPUStrategy)."""

    kind: Literal["tpu"] = "tpu"
    """Distribution of a step over devices."""
    address: str = "local"
    """`local` on a TPU VM; otherwise the name of a TPU, or `grpc://host:port`."""
    devices: Annotated[int, Field(ge=1, le=4096)] = 8
    """Number of its cores."""


class Pipeline(Strategy):
    """One process, several devices of one host, each with a stage of the model: consecutive layers, their weights, and
    what the optimizer keeps of them (GPipe, Huang et al., arXiv 1811.06965)."""

    compiled: ClassVar[bool] = False

    kind: Literal["pipeline"] = "pipeline"
    """Distribution of a step over devices."""
    devices: Annotated[int, Field(ge=2, le=64)] = 2
    """Devices, and stages; without that many accelerators, logical devices of the CPU."""
    micro_batches: Annotated[int, Field(ge=1, le=256)] = 4
    """Parts of a batch that pass through the stages one behind the other; with more of them devices are idle less."""

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return 1

    @property
    def as_tested(self) -> Pipeline:
        """Two stages and a few micro-batches: more of them are computed in the same way."""
        return self.model_copy(update={"devices": 2, "micro_batches": min(self.micro_batches, 4)})


StrategyConfig = Annotated[OneDevice | Mirrored | MultiWorker | Tpu | Pipeline, BY_KIND]


class EarlyStopping(Section):
    """Ends a training early when the validation score no longer gets better."""

    metric: Literal["loss", "primary"] = "loss"
    """What is watched on the validation split: the loss, or the task's primary metric."""
    patience: Annotated[int, Field(ge=1)] = 5
    """Evaluations (every `train.evaluate_every` steps) without a better score after which training ends."""
    delta: Annotated[float, Field(ge=0)] = 0.0
    """By how much a score must be better to count as better."""


class CheckpointConfig(Section):
    """When the state of a training is saved."""

    every: Steps = 100
    """Steps between checkpoints."""
    keep: Annotated[int, Field(ge=1)] = 2
    """How many of the newest are kept."""
    keep_every: Steps | None = None
    """Checkpoints at multiples of this step are kept too, until the model is made."""
    keep_best: bool = False
    """Whether the one with the best validation loss is kept too, of those at whose step there was an evaluation."""

    def most(self, steps: int) -> int:
        """Return how many checkpoints a training of so many steps keeps at most."""
        return self.keep + self.keep_best + (steps // self.keep_every if self.keep_every else 0)


class TrainConfig(Section):
    """How a model is fitted."""

    steps: Steps | None = None
    """Global steps to take; either this or `epochs`."""

    epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the train split, ceil(epochs x examples / batch_size) steps; either this or `steps`."""

    batch_size: Annotated[int, Field(ge=1, le=2**24)] = 64
    """Examples of a global step, over all replicas."""

    precision: Precision = "float32"
    """Type of activations and of the multiplications; weights, sums and the update stay float32. The loss of float16
    is scaled, and an update whose gradient is not finite is skipped."""

    accumulate: Annotated[int, NOT_IDENTITY, Field(ge=1, le=4096)] = 1
    """Micro-batches of a step, one after the other: less memory for the same global batch."""

    jit: Annotated[bool, LATER] = False
    """Compile the step by XLA: slower to start, often faster to run, other last bits."""

    loss: Loss | None = None
    """The loss; default: the task's. The errors are for regression."""

    label_smoothing: Annotated[float, LATER, Field(ge=0, lt=1)] = 0.0
    """Share of a label's weight that is spread over all classes (Szegedy et al., arXiv 1512.00567)."""

    class_weights: Annotated[Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None, LATER] = None
    """Weight of an example by its class: a mapping for every class, or `balanced`: N / (classes x examples of it)."""

    optimizer: OptimizerConfig = Adam()
    """The update rule."""

    learning_rate: Rate = 1e-3
    """The peak learning rate, which `train.schedule` scales at each step."""

    schedule: Schedule = Schedule()
    """The learning rate by step."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest global norm of the gradient; larger ones are scaled down to it."""

    select: Annotated[Literal["last", "best"], LATER] = "last"
    """Which weights become the model: the last ones, or those with the best validation loss at an evaluation."""

    early_stopping: Annotated[EarlyStopping | None, LATER] = None
    """When to end before the last step; default: never."""

    continue_from: Annotated[str | None, LATER] = None
    """A finished model in the store to continue: its state, its order of examples, its ledger. `steps` and `epochs`
    count from its first step. The result is, bit for bit, that of one longer training; where it would not be (a
    schedule that falls, a last batch that was not full), it is refused."""

    strategy: Annotated[StrategyConfig, NOT_IDENTITY] = OneDevice()
    """The layout of a step over devices."""

    restarts: Annotated[int, NOT_IDENTITY, Field(ge=0, le=1000)] = 3
    """How often lost processes are started again, from the last checkpoint, before the training has advanced."""

    checkpoint: Annotated[CheckpointConfig, NOT_IDENTITY] = CheckpointConfig()
    """When the state is saved."""

    log_every: Annotated[Steps, NOT_IDENTITY] = 20
    """Steps between points of the training curves."""

    evaluate_every: Annotated[Steps, NOT_IDENTITY] = 100
    """Steps between evaluations on the validation split."""

    def decides(self, name: str) -> bool:
        """Return whether a field is part of the digest; `evaluate_every` is where evaluations select or end."""
        if name == "evaluate_every":
            return self.select == "best" or self.early_stopping is not None
        return name != "continue_from" and super().decides(name)

    def fit(self, task: str) -> None:
        """Raise `Conflict` for the loss of another task, and for settings that this one would ignore."""
        losses = TASKS[task].losses
        if self.loss is not None and self.loss not in losses:
            raise Conflict("train.loss", self.loss, f"the losses of {task} are {', '.join(losses)}", "choose one")
        check_options("train", self, task)

    def fit_classes(self, classes: Sequence[str]) -> None:
        """Raise `Conflict` where class weights do not name exactly these classes."""
        if isinstance(self.class_weights, dict) and set(self.class_weights) != set(classes):
            saw = ", ".join(sorted(set(self.class_weights) ^ set(classes)))
            rule = f"must name every class: {', '.join(classes)}"
            raise Conflict("train.class_weights", saw, rule, "add or remove these")

    @model_validator(mode="after")
    def batch_divides(self) -> TrainConfig:
        factors = {"replicas": self.strategy.replicas, "accumulate": self.accumulate}
        if self.strategy.micro_batches_of_each > 1:
            factors["micro_batches"] = self.strategy.micro_batches_of_each
        share = math.prod(factors.values())
        if self.batch_size % share:
            rule = f"must divide by {' x '.join(factors)} = {share}"
            below = self.batch_size // share * share
            nearest = f"use {below} or {below + share}" if below else f"use {share}"
            raise Conflict("batch_size", self.batch_size, rule, nearest)
        return self

    @model_validator(mode="after")
    def jit_has_one_device(self) -> TrainConfig:
        if self.jit and not self.strategy.compiled:
            rule = f"XLA compiles for one device, and a step of {self.strategy.kind} has several"
            raise Conflict("jit", True, rule, "set it to false, or choose another train.strategy")
        return self

    @model_validator(mode="after")
    def steps_or_epochs(self) -> TrainConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("needs exactly one of steps and epochs; set one and leave the other out")
        if self.steps is not None and self.schedule.warmup > self.steps:
            rule = f"must not pass the {self.steps} steps"
            raise Conflict(
                "schedule.warmup", self.schedule.warmup, rule, f"lower it to {self.steps} or raise train.steps"
            )
        return self
