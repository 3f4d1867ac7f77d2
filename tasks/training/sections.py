"""The smaller sections of `train`: losses of further outputs, when it ends, what is saved, what a spike does, adapters,
and TensorBoard."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LISTED, NOT_IDENTITY, Conflict, OwnCode, Section
from tasks.config.task import TASKS, LossName, OutputTask
from tasks.training.optimizers import Pattern

Steps = Annotated[int, Field(ge=1, le=10**12)]


class OutputLoss(Section):
    """What a further output of the model learns, by which loss, and how much that counts."""

    task: OutputTask
    """`classification` of a column of type `category`, or `regression` of one of type `number`."""
    loss: LossName | OwnCode | None = None
    """Its loss, one of its task or one of yours, as `train.loss`; default: the task's."""
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Factor of its loss in the sum that is minimised, in which the main output has 1."""

    @property
    def own(self) -> str | None:
        """Its loss, where it is one of the user's."""
        return self.loss if self.loss is not None and ":" in self.loss else None

    @property
    def reported(self) -> str:
        """The loss that evaluations and reports have: its own, or the default one of its task where that is the
        user's."""
        return TASKS[self.task].losses[0] if self.own is not None or self.loss is None else self.loss

    def fit(self, setting: str, column_type: str) -> None:
        """Raise `Conflict` for a task that a column of this type does not have, and for the loss of another task."""
        needed, losses = TASKS[self.task].output, TASKS[self.task].losses
        if column_type != needed:
            rule = f"learns a column of type {needed}, and this one is of type {column_type}"
            fitting = [name for name, task in TASKS.items() if task.output == column_type]
            raise Conflict(f"{setting}.task", self.task, rule, f"use {' or '.join(fitting)}")
        if self.reported not in losses:
            rule = f"the losses of {self.task} are {', '.join(losses)}"
            raise Conflict(f"{setting}.loss", self.loss, rule, "choose one")


class EarlyStopping(Section):
    """Ends a training early when the validation score no longer gets better."""

    metric: Literal["primary", "loss"] = "primary"
    """What is watched on the validation split: `evaluate.primary`, or the loss."""
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


class Rollback(Section):
    """Go back to a checkpoint before the spike, and go on behind it: the examples of the steps between are skipped
    (Chowdhery et al., arXiv 2204.02311, section 5.1). A spike is a step whose loss or gradient is not finite, or whose
    loss is far above those before it."""

    kind: Literal["rollback"] = "rollback"
    """What is done."""
    factor: Annotated[float, Field(gt=1)] = 2.0
    """A loss above so many times the highest of the window is a spike; where losses are below 0, one that is above the
    highest by `factor - 1` times the largest magnitude in the window."""
    window: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Steps before it whose losses are compared; earlier ones than so many steps are not judged."""
    most: Annotated[int, Field(ge=1, le=1000)] = 10
    """Rollbacks after which the next spike ends the training with an error."""


def by_name(value: Any) -> Any:
    """Return the section that a name alone stands for."""
    return {"kind": value} if isinstance(value, str) else value


OnSpike = Annotated[
    Rollback | None, BeforeValidator(by_name, json_schema_input_type=Literal["rollback"] | Rollback | None)
]
"""`rollback`, or its settings."""


class Lora(Section):
    """Low-rank adaptation (Hu et al., arXiv 2106.09685): of each layer named, the kernel W stays, and the product of
    two small matrices is trained and added: W + alpha / rank x A B. All other layers are frozen but those of `also`.
    At the end the sum becomes the kernel: the model is the one of `model`, without further layers."""

    rank: Annotated[int, Field(ge=1, le=1024)] = 8
    """Columns of A and rows of B."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """Scale of the product; default: the rank."""
    targets: Annotated[tuple[Pattern, ...], LISTED, Field(min_length=1)] = ("*",)
    """Names of Dense, EinsumDense and Embedding layers; `*` is any text."""
    also: Annotated[tuple[Pattern, ...], LISTED] = ()
    """Names of layers that are trained whole, such as a new output layer."""


class TensorBoard(Section):
    """The curves, and what is named here, in the folder of the run; `millrace board RUN` shows them."""

    histograms: Annotated[bool, NOT_IDENTITY] = True
    """Whether the distribution of each variable's values is written at each evaluation."""
    trace: Annotated[tuple[Steps, Steps], NOT_IDENTITY, LISTED] = (10, 20)
    """Two steps between which TensorFlow's profiler runs."""

    @model_validator(mode="after")
    def a_trace_has_steps(self) -> TensorBoard:
        first, last = self.trace
        if last <= first:
            raise Conflict("trace", list(self.trace), "must be two steps, the first one lower", "swap or change them")
        return self


def by_flag(value: Any) -> Any:
    """Return the section that true stands for, and none for false."""
    return ({} if value else None) if isinstance(value, bool) else value


BoardConfig = Annotated[TensorBoard | None, BeforeValidator(by_flag, json_schema_input_type=bool | TensorBoard | None)]
"""`true`, or its settings."""
