"""How a model is judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import LATER, LISTED, NOT_IDENTITY, Conflict, IsPath, Name, OwnCode, Section
from tasks.config.task import TASKS, check_options

Metric = Literal[
    "accuracy",
    "loss",
    "calibration_error",
    "macro_f1",
    "micro_f1",
    "label_accuracy",
    "rmse",
    "mae",
    "r2",
    "bits_per_byte",
    "token_accuracy",
]


class EvaluateConfig(Section):
    """Metrics with 95 % bootstrap intervals on the validation and test splits."""

    metrics: Annotated[tuple[Metric, ...], LISTED] | None = None
    """Which metrics; default: all of the task's."""

    own_metrics: Annotated[dict[Name, OwnCode], LATER] = {}
    """Metrics of yours by name, each `package.module:function`: it takes the targets and the outputs (float32: logits,
    or values in the targets' units) of a split, and returns a number for each example, whose mean is the metric."""

    folder: Annotated[str | None, NOT_IDENTITY, IsPath()] = None
    """The folder from which the modules of own metrics are imported; default: the preset's."""

    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Bootstrap resamples of each interval."""

    bins: Annotated[int, Field(ge=2, le=100)] = 15
    """Equal-width confidence bins of the calibration error and the reliability plot."""

    most_wrong: Annotated[int, Field(ge=0, le=256)] = 16
    """How many of the worst examples are shown: of a classifier the most confidently wrong ones."""

    sample_tokens: Annotated[int, LATER, Field(ge=0, le=4096)] = 200
    """Tokens of text that a language model writes into its report."""

    sample_temperature: Annotated[float, LATER, Field(gt=0, le=10)] = 0.8
    """Sampling temperature: the logits are divided by it."""

    sample_prompt: Annotated[str, LATER] = ""
    """Prompt of the sample; default: the beginning of a document."""

    def fit(self, task: str) -> None:
        """Raise `Conflict` for metrics of another task, and for settings that this one would ignore."""
        metrics = TASKS[task].metrics
        for name in self.metrics or ():
            if name not in metrics:
                rule = f"the metrics of {task} are {', '.join(metrics)}"
                raise Conflict("evaluate.metrics", name, rule, "choose among these")
        facts = TASKS[task]
        for own in self.own_metrics:
            if own in (*facts.metrics, *facts.figures, *facts.baselines):
                rule = f"is a metric of {task} already"
                raise Conflict("evaluate.own_metrics", own, rule, "give yours another name")
        if self.own_metrics and facts.target is None:
            rule = f"is not there for {task}, whose examples are files of several rows"
            raise Conflict("evaluate.own_metrics", ", ".join(self.own_metrics), rule, "leave it out")
        check_options("evaluate", self, task)
