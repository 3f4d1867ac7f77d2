"""The section `train`: what decides the model, and, marked as such, how it is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import HAS_OWN_CODE, LATER, LISTED, NOT_IDENTITY, Conflict, IsPath, OwnCode, Section
from tasks.config.task import TASKS, LossName, check_options
from tasks.feed.augmentations import AugmentConfig
from tasks.feed.orders import steps_of
from tasks.processes.config import SIDECAR, ClusterConfig, Role
from tasks.training.initial import InitConfig, Text
from tasks.training.optimizers import Adam, OptimizerConfig, Pattern
from tasks.training.schedules import Cosine, RateScaling, ScheduleConfig
from tasks.training.sections import (
    BoardConfig,
    CheckpointConfig,
    EarlyStopping,
    Lora,
    OnSpike,
    OutputLoss,
    Steps,
    TensorBoard,
)
from tasks.training.strategies import OneDevice, StrategyConfig

Precision = Literal["float32", "bfloat16", "float16"]

Rate = Annotated[float, Field(gt=0, le=10)]


NO_SIDECAR = {
    "early_stopping": "its scores come when the training has gone on, too late for train.early_stopping",
    "cluster": "is a process of the chief's host, where train.cluster gives each process a host of its own",
    "on_spike": "scores steps that train.on_spike may undo meanwhile",
    "lora": "gets merged weights, whose scores differ in the last bits from those of the matrices of train.lora",
}
"""Settings with which `train.evaluate: sidecar` is refused, each with the reason."""


TAKEN = frozenset({"gradient_norm", "update_ratio", "learned_baseline"})
"""What stands in names of metrics where the name of a further output stands in those of its own."""


class TrainConfig(Section):
    """How a model is fitted."""

    form_first: ClassVar[tuple[str, ...]] = (
        *("steps", "epochs", "batch_size", "learning_rate", "optimizer", "schedule", "clip_norm", "augment"),
        *("early_stopping", "select", "evaluate_every", "seeds"),
    )

    steps: Steps | None = None
    """Global steps to take; either this or `epochs`."""

    epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the train split, ceil(epochs x examples / batch_size) steps; either this or `steps`."""

    order: Annotated[Literal["shuffled", "blocks", "lengths"], LATER] = "shuffled"
    """How examples are shuffled in each epoch: `shuffled` permutes all rows; `blocks` permutes blocks of about a
    mebibyte, and then the rows of 64 neighbouring blocks, which is faster where the snapshot is larger than memory;
    `lengths` puts texts of similar length into a batch, whose padding is not computed."""

    batch_size: Annotated[int, Field(ge=1, le=2**24)] = 64
    """Examples of a global step, over all replicas."""

    precision: Precision = "float32"
    """Type of activations and of the multiplications; weights, sums and the update stay float32. The loss of float16
    is scaled, and an update whose gradient is not finite is skipped."""

    augment: Annotated[tuple[AugmentConfig, ...], LATER, LISTED] = ()
    """Random changes of the examples, one after the other, when they are read; evaluations have none. An example's
    change is a function of (seed, epoch, row)."""

    accumulate: Annotated[int, NOT_IDENTITY, Field(ge=1, le=4096)] = 1
    """Micro-batches of a step, one after the other: less memory for the same global batch."""

    fit_memory: Annotated[bool, NOT_IDENTITY] = False
    """Try how many micro-batches a step needs to fit into memory, from `accumulate` on, before the first step."""

    remat: Annotated[bool, LATER] = False
    """Keep only the outputs of segments of the model, such as its blocks, and compute the activations between them
    again in the backward pass (Chen et al., arXiv 1604.06174): less memory, a third more time, other last bits."""

    jit: Annotated[bool, LATER] = False
    """Compile the step by XLA: slower to start, often faster to run, other last bits."""

    loss: Annotated[LossName | OwnCode | None, HAS_OWN_CODE] = None
    """The loss; default: the task's. The errors are for regression. `package.module:function` is one of yours: it takes
    targets and outputs (float32) of some examples and returns a loss for each prediction, in `keras.ops`."""

    losses: Annotated[dict[Text, OutputLoss], LATER, HAS_OWN_CODE] = {}
    """The further outputs of the model, by the columns of `source.outputs` that they predict. What is minimised is the
    loss of the main output and these, each times its weight."""

    folder: Annotated[Text | None, NOT_IDENTITY, IsPath()] = None
    """The folder from which the modules of own losses are imported; default: the preset's."""

    label_smoothing: Annotated[float, LATER, Field(ge=0, lt=1)] = 0.0
    """Share of a label's weight that is spread over all classes (Szegedy et al., arXiv 1512.00567)."""

    class_weights: Annotated[Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None, LATER] = None
    """Weight of an example by its class: a mapping for every class, or `balanced`: N / (classes x examples of it),
    of the N examples and the classes in the train split."""

    optimizer: OptimizerConfig = Adam()
    """The update rule."""

    learning_rate: Rate = 1e-3
    """The peak learning rate, which `train.schedule` scales at each step."""

    schedule: ScheduleConfig = Cosine()
    """The learning rate by step."""

    rate_scaling: Annotated[RateScaling | None, LATER] = None
    """How the learning rate depends on the batch; default: not at all."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Largest global norm of the gradient; larger ones are scaled down to it."""

    on_spike: Annotated[OnSpike, LATER] = None
    """What is done when the loss spikes; default: a loss that is not finite ends the training, any other one does not
    matter. With it, `checkpoint` decides the model: where checkpoints are, a training goes back to."""

    ema: Annotated[float | None, LATER, Field(gt=0, lt=1)] = None
    """Decay of an exponential moving average of the weights (Polyak and Juditsky, 1992), which is evaluated and becomes
    the model; default: none."""

    init: Annotated[InitConfig | None, LATER] = None
    """The weights that the training begins with; default: random ones, by the seed."""

    freeze: Annotated[tuple[Pattern, ...], LATER, LISTED] = ()
    """Names or paths of layers that are not trained; `*` is any text."""

    layer_rates: Annotated[dict[Pattern, Annotated[float, Field(gt=0, le=1000)]], LATER] = {}
    """Factors of the learning rate by names or paths of layers; a layer that none names has 1. Patterns that give a
    variable different factors are refused."""

    lora: Annotated[Lora | None, LATER] = None
    """Low-rank adaptation instead of a training of all weights; default: none."""

    seeds: Annotated[int, LATER, Field(ge=1, le=100)] = 1
    """How many trainings there are, each with a seed of its own; that with the best validation score becomes the model.
    The first one has the seed of the run."""

    select: Annotated[Literal["last", "best", "average"], LATER] = "last"
    """Which weights become the model: the last ones, or those that are best by `evaluate.primary` at an evaluation,
    of equal ones by the loss. `average` is for several `seeds`: the mean of their last weights, where its validation
    score is better than each of theirs."""

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
    """How often lost processes are started again, from the last checkpoint, before another one is saved."""

    checkpoint: Annotated[CheckpointConfig, NOT_IDENTITY] = CheckpointConfig()
    """When the state is saved."""

    log_every: Annotated[Steps, NOT_IDENTITY] = 20
    """Steps between points of the training curves."""

    evaluate_every: Annotated[Steps, NOT_IDENTITY] = 100
    """Steps between evaluations on the validation split."""

    tensorboard: Annotated[BoardConfig, NOT_IDENTITY] = None
    """Also write curves, histograms of the weights and a trace of some steps for TensorBoard; see `millrace board`."""

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
        if name == "checkpoint":
            return self.on_spike is not None
        if name == "strategy":
            return not self.strategy.exact
        return name != "continue_from" and super().decides(name)

    @property
    def by_primary(self) -> bool:
        """Whether evaluations decide something by the primary metric."""
        stopping = self.early_stopping
        return self.select == "best" or (stopping is not None and stopping.metric == "primary")

    def fit(self, task: str) -> None:
        """Raise `Conflict` for the loss of another task, and for settings that this one would ignore."""
        losses = TASKS[task].losses
        if self.loss is not None and self.own_loss is None and self.loss not in losses:
            raise Conflict("train.loss", self.loss, f"the losses of {task} are {', '.join(losses)}", "choose one")
        if self.folder is not None and not self.own_losses:
            rule = f"is ignored: the loss {self.loss or losses[0]} is none of yours"
            raise Conflict("train.folder", self.folder, rule, "leave it out, or set train.loss to module:function")
        check_options("train", self, task)

    @model_validator(mode="after")
    def the_last_one_mixes(self) -> TrainConfig:
        if misplaced := next((each for each in self.augment[:-1] if each.mixes), None):
            rule = "mixes two examples that the others have changed"
            raise Conflict("augment", misplaced.kind, rule, "name it last, and no other one that mixes")
        return self

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
    def a_strategy_has_its_limits(self) -> TrainConfig:
        for name in ("fit_memory", "remat"):
            if getattr(self, name) and not self.strategy.alone:
                rule = f"is not there for {self.strategy.kind}, where no process has a whole replica"
                raise Conflict(name, True, rule, "leave it out, or use another strategy")
        if self.jit and not self.strategy.compiled:
            rule = f"XLA compiles for one device, and the variables of {self.strategy.kind} are on several"
            raise Conflict("jit", True, rule, "set it to false, or choose another train.strategy")
        if self.order == "lengths" and not self.strategy.any_length:
            rule = f"makes batches of several lengths, and {self.strategy.kind} compiles for one"
            raise Conflict("order", self.order, rule, "use shuffled or blocks")
        return self

    @model_validator(mode="after")
    def a_sidecar_scores_copies(self) -> TrainConfig:
        for name, rule in NO_SIDECAR.items():
            if self.evaluate == "sidecar" and getattr(self, name) is not None:
                raise Conflict("evaluate", self.evaluate, rule, f"use inline, or leave out train.{name}")
        return self

    @model_validator(mode="after")
    def a_finished_model_has_no_checkpoints(self) -> TrainConfig:
        if self.on_spike is not None and self.continue_from is not None:
            rule = "has no checkpoints any more, to which train.on_spike could go back"
            raise Conflict("continue_from", self.continue_from, rule, "leave out one of them")
        return self

    @model_validator(mode="after")
    def asynchronous_steps(self) -> TrainConfig:
        if self.strategy.exact:
            return self
        if self.continue_from is not None:
            rule = "promises the bytes of one longer training, which an asynchronous one has not"
            raise Conflict("continue_from", self.continue_from, rule, "leave it out, or use another strategy")
        if self.optimizer.whole:
            rule = f"needs whole matrices, and {self.strategy.kind} has pieces of them on several servers"
            raise Conflict("optimizer.kind", self.optimizer.kind, rule, "use another one, such as adamw")
        for name in ("ema", "layer_rates", "lora", "on_spike"):
            if value := getattr(self, name):
                rule = f"is not there for {self.strategy.kind}"
                raise Conflict(name, value, rule, "leave it out, or use another strategy")
        return self

    @model_validator(mode="after")
    def lora_freezes_the_rest(self) -> TrainConfig:
        if self.lora is not None and self.freeze:
            rule = "is ignored: train.lora freezes all layers but those it names"
            raise Conflict("freeze", list(self.freeze), rule, "leave it out")
        return self

    @model_validator(mode="after")
    def a_host_for_each_process(self) -> TrainConfig:
        if self.cluster is None:
            return self
        if self.strategy.processes == 1:
            rule = f"is for several processes, and {self.strategy.kind} has one"
            raise Conflict("cluster", "hosts of a training", rule, "leave it out, or choose multi_worker")
        named = len(self.cluster.hosts)
        if named and named != self.strategy.processes:
            rule = f"a strategy {self.strategy.kind} of {self.strategy.processes} processes needs as many hosts"
            raise Conflict("cluster.hosts", named, rule, "name as many, or leave out train.cluster")
        return self

    @model_validator(mode="after")
    def steps_or_epochs(self) -> TrainConfig:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("needs exactly one of steps and epochs; set one and leave the other out")
        if self.steps is not None:
            self.fit_schedule(self.steps)
            self.fit_trace(self.steps)
        return self

    def planned(self, examples: int) -> int:
        """Return the global steps of a training on so many examples."""
        return self.steps if self.steps is not None else steps_of(self.epochs or 0, examples, self.batch_size)

    def fit_trace(self, steps: int) -> None:
        """Raise `Conflict` for a trace that is not the default, and that a training of so many steps does not reach."""
        board = self.tensorboard
        if board is not None and board.trace != TensorBoard().trace and board.trace[0] >= steps:
            rule = f"the training ends before it, after {steps} steps"
            raise Conflict("tensorboard.trace", list(board.trace), rule, "leave it out, or raise train.steps")

    def fit_schedule(self, steps: int) -> None:
        """Raise `Conflict` where a training of so many steps has no room for the schedule."""
        try:
            self.schedule.check(steps)
        except Conflict as misfit:
            raise Conflict(f"schedule.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None

    @property
    def alone(self) -> TrainConfig:
        """The config of each of several trainings: that of a training without `seeds`, whose model it shares."""
        select = "last" if self.select == "average" else self.select
        return self.model_copy(update={"seeds": 1, "select": select})

    @model_validator(mode="after")
    def several_seeds(self) -> TrainConfig:
        if self.select == "average" and self.seeds == 1:
            rule = "is the mean of the weights of several trainings, and train.seeds is 1"
            raise Conflict("select", self.select, rule, "raise train.seeds, or use last or best")
        if self.seeds > 1 and self.continue_from is not None:
            rule = "goes on with one training and its seed, and train.seeds begins several"
            raise Conflict("continue_from", self.continue_from, rule, "leave out one of them")
        return self

    @property
    def own_loss(self) -> str | None:
        """The function of `train.loss`, where it is one of the user's."""
        return self.loss if self.loss is not None and ":" in self.loss else None

    @property
    def own_losses(self) -> list[tuple[str, str]]:
        """The functions of all losses that are the user's, each with its setting."""
        named = [("train.loss", self.own_loss), *(("train.losses", output.own) for output in self.losses.values())]
        return [(setting, function) for setting, function in named if function is not None]

    def fit_outputs(self, columns: Mapping[str, str], outputs: Sequence[str], main: Sequence[str]) -> None:
        """Raise `Conflict` where `losses` are not those of a source's further outputs, or do not fit their columns.

        Args:
            columns: the types of the source's columns by name; empty where none has a role.
            outputs, main: its `source.outputs`, and the columns of its label or targets.
        """
        for column, output in self.losses.items():
            field = "losses"
            if column in main:
                rule = "is predicted by the main output, whose loss is train.loss"
                raise Conflict(field, column, rule, "leave it out")
            if column not in columns:
                rule = f"is a column of the source, which are {', '.join(columns) or 'not named in its config'}"
                raise Conflict(field, column, rule, "correct the name, or use a source with source.columns")
            if column not in outputs:
                rule = "is no further output of the source, but an input or what else its role is"
                raise Conflict(field, column, rule, f"add {column} to source.outputs")
            if column in TAKEN:
                rule = f"begins the names of other metrics, as do {', '.join(sorted(TAKEN - {column}))}"
                raise Conflict(field, column, rule, "rename the column")
            output.fit(f"losses.{column}", columns[column])
        if without := [column for column in outputs if column not in self.losses]:
            rule = f"is a further output, and has no loss: train.losses has {', '.join(self.losses) or 'none'}"
            remedy = "add it to train.losses, or make it `ignore` in source.columns"
            raise Conflict("losses", without[0], rule, remedy)
        for each in self.augment if self.losses else ():
            if each.mixes:
                rule = "mixes the labels or targets of two examples, and not their further outputs"
                raise Conflict("augment", each.kind, rule, "leave it out, or leave out train.losses")

    @model_validator(mode="after")
    def own_loss_is_as_it_is(self) -> TrainConfig:
        if self.own_loss is not None and self.label_smoothing:
            raise Conflict("label_smoothing", self.label_smoothing, "is ignored by a loss of yours", "leave it out")
        return self
