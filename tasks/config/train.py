"""The arithmetic of a training, and, marked as such, its layout."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import BY_KIND, LATER, NOT_IDENTITY, Conflict, Section
from tasks.config.cluster import ClusterConfig
from tasks.config.roles import CHIEF, SIDECAR, WORKER, Role
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

    exact: ClassVar[bool] = True
    """Whether the result depends on the config and the examples alone; then a strategy is not part of the digest."""

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return 1

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts of its processes, by rank."""
        return CHIEF, *[WORKER] * (self.processes - 1)

    @property
    def devices_of_each(self) -> int:
        """Devices of each process: the field `devices` of the strategies that have it."""
        return getattr(self, "devices", 1)

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.processes * self.devices_of_each

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages that only this strategy needs."""
        return ()

    def check_packages(self) -> None:
        """Raise `Conflict` where one of them is not installed; nothing is imported."""


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


class Horovod(Strategy):
    """Several processes, each with a copy of the model on one device, whose gradients Horovod adds up. It is built for
    the installed TensorFlow by `make horovod`. Every process reads its slice of each global batch."""

    kind: Literal["horovod"] = "horovod"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=2, le=1024)] = 2
    """Processes, each with one accelerator; without accelerators they share the CPU threads of a host."""

    @property
    def processes(self) -> int:
        """Compute processes of a training."""
        return self.workers

    @property
    def packages(self) -> tuple[str, ...]:
        """Horovod."""
        return ("horovod",)

    def check_packages(self) -> None:
        """Raise `Conflict` where Horovod is not installed, or was built for another TensorFlow."""
        needed = f"tensorflow{version('tensorflow')}"
        try:
            found = version("horovod")
        except PackageNotFoundError:
            found = ""
        if not found.endswith(f"+{needed}"):
            rule = f"needs horovod built for {needed}, and {found or 'none'} is installed"
            raise Conflict("train.strategy.kind", self.kind, rule, "run `make horovod`")


class Tpu(Strategy):
    """The cores of a TPU, each with a copy of the model (tf.distribute.TPUStrategy)."""

    kind: Literal["tpu"] = "tpu"
    """Distribution of a step over devices."""
    address: str = "local"
    """`local` on a TPU VM; otherwise the name of a TPU, or `grpc://host:port`."""
    devices: Annotated[int, Field(ge=1, le=4096)] = 8
    """Number of its cores."""


class ParameterServer(Strategy):
    """Asynchronous: servers hold the parameters, each worker computes whole steps
    (tf.distribute.ParameterServerStrategy). Resumable, not exact: the result depends on the order of the updates."""

    exact: ClassVar[bool] = False

    kind: Literal["parameter_server"] = "parameter_server"
    """Distribution of a step over devices."""
    workers: Annotated[int, Field(ge=1, le=1024)] = 2
    """Processes that compute steps; one that is lost is replaced while the others go on."""
    servers: Annotated[int, NOT_IDENTITY, Field(ge=1, le=1024)] = 1
    """Processes that hold the parameters and optimizer state."""
    min_shard_bytes: Annotated[int, NOT_IDENTITY, Field(ge=1)] = 256 << 10
    """A variable is cut into pieces of at least so many bytes, one for each server at most."""

    @property
    def processes(self) -> int:
        """The chief, the workers and the servers."""
        return 1 + self.workers + self.servers

    @property
    def replicas(self) -> int:
        """Copies of the model that compute a step together: each worker computes its own."""
        return 1

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts of its processes, by rank."""
        worker, server = Role("worker", serves=True, replaced=True), Role("server", serves=True)
        return CHIEF, *[worker] * self.workers, *[server] * self.servers


StrategyConfig = Annotated[OneDevice | Mirrored | MultiWorker | Horovod | Tpu | ParameterServer, BY_KIND]


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

    cluster: Annotated[ClusterConfig | None, NOT_IDENTITY] = None
    """The hosts of a strategy of several processes, where each has a host of its own; default: all are on this one."""

    restarts: Annotated[int, NOT_IDENTITY, Field(ge=0, le=1000)] = 3
    """How often lost processes are started again, from the last checkpoint, before the training has advanced."""

    checkpoint: Annotated[CheckpointConfig, NOT_IDENTITY] = CheckpointConfig()
    """When the state is saved."""

    log_every: Annotated[Steps, NOT_IDENTITY] = 20
    """Steps between points of the training curves."""

    evaluate_every: Annotated[Steps, NOT_IDENTITY] = 100
    """Steps between evaluations on the validation split."""

    evaluate: Annotated[Literal["inline", "sidecar"], NOT_IDENTITY] = "inline"
    """Who evaluates: the processes that train, between two steps, or a process beside them while they go on."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """The parts of the training's processes, by rank."""
        return *self.strategy.roles, *[SIDECAR] * (self.evaluate == "sidecar")

    def decides(self, name: str) -> bool:
        """Return whether a field is part of the digest; `evaluate_every` is where evaluations select or end."""
        if name == "evaluate_every":
            return self.select == "best" or self.early_stopping is not None
        if name == "strategy":
            return not self.strategy.exact
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
        share = self.strategy.replicas * self.accumulate
        if self.batch_size % share:
            below = self.batch_size // share * share
            nearest = f"use {below} or {below + share}" if below else f"use {share}"
            raise Conflict("batch_size", self.batch_size, f"must divide by replicas x accumulate = {share}", nearest)
        return self

    @model_validator(mode="after")
    def a_sidecar_is_late(self) -> TrainConfig:
        if self.evaluate == "sidecar" and self.early_stopping is not None:
            rule = "its scores come when the training has gone on, too late for train.early_stopping"
            raise Conflict("evaluate", self.evaluate, rule, "use inline, or leave out train.early_stopping")
        if self.evaluate == "sidecar" and self.cluster is not None:
            rule = "is a process of the chief's host, where train.cluster gives each process a host of its own"
            raise Conflict("evaluate", self.evaluate, rule, "use inline")
        return self

    @model_validator(mode="after")
    def asynchronous_steps(self) -> TrainConfig:
        if not self.strategy.exact:
            if self.jit:
                remedy = "set train.jit to false, or use another strategy"
                raise Conflict("jit", True, "cannot compile steps whose variables are on servers", remedy)
            if self.continue_from is not None:
                rule = "promises the bytes of one longer training, which an asynchronous one has not"
                raise Conflict("continue_from", self.continue_from, rule, "leave it out, or use another strategy")
        return self

    @model_validator(mode="after")
    def a_host_for_each_process(self) -> TrainConfig:
        if self.cluster is None:
            return self
        named = len(self.cluster.hosts)
        if self.strategy.processes == 1 or (named and named != self.strategy.processes):
            rule = f"a strategy {self.strategy.kind} of {self.strategy.processes} processes needs as many hosts"
            raise Conflict("cluster.hosts", named, rule, "name as many, or leave out train.cluster")
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
