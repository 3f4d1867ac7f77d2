"""How a model is judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import LATER, LISTED, Conflict, Section

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

METRICS: dict[str, tuple[Metric, ...]] = {
    "classification": ("accuracy", "loss", "calibration_error"),
    "multilabel": ("macro_f1", "micro_f1", "label_accuracy", "loss"),
    "regression": ("rmse", "mae", "r2", "loss"),
    "language_model": ("bits_per_byte", "loss", "token_accuracy"),
}
"""By task, the primary one first."""

ONLY = {"classification": ("bins",), "language_model": ("sample_tokens", "sample_temperature", "sample_prompt")}
"""Settings that one task alone reads."""


class EvaluateConfig(Section):
    """Metrics with 95 % bootstrap intervals on the validation and test splits."""

    metrics: Annotated[tuple[Metric, ...], LISTED] | None = None
    """Which metrics; default: all of the task's."""

    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Bootstrap resamples behind each interval."""

    bins: Annotated[int, Field(ge=2, le=100)] = 15
    """Equal-width confidence bins of the calibration error and the reliability picture."""

    most_wrong: Annotated[int, Field(ge=0, le=256)] = 16
    """How many of the worst examples are shown: of a classifier the most confidently wrong ones."""

    sample_tokens: Annotated[int, LATER, Field(ge=0, le=4096)] = 200
    """Tokens of text that a language model writes into its report."""

    sample_temperature: Annotated[float, LATER, Field(gt=0, le=10)] = 0.8
    """How freely it chooses them: the logits are divided by it."""

    sample_prompt: Annotated[str, LATER] = ""
    """What the sample begins with; by default the beginning of a document."""

    def fit(self, task: str) -> None:
        """Raise `Conflict` for metrics of another task, and for settings that this one would ignore."""
        for name in self.metrics or ():
            if name not in METRICS[task]:
                rule = f"the metrics of {task} are {', '.join(METRICS[task])}"
                raise Conflict("evaluate.metrics", name, rule, "choose among these")
        for other, names in ONLY.items():
            for setting in names:
                value = getattr(self, setting)
                if other != task and value != type(self).model_fields[setting].default:
                    raise Conflict(f"evaluate.{setting}", value, f"is ignored by {task}", "leave it out")
