"""How a model is judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import Section


class EvaluateConfig(Section):
    """Metrics with 95 % bootstrap intervals on the validation and test splits."""

    metrics: tuple[Literal["accuracy", "loss", "log_loss", "calibration_error"], ...] | None = None
    """Which metrics; default: all of the task's."""

    resamples: Annotated[int, Field(ge=100, le=100_000)] = 1000
    """Bootstrap resamples behind each interval."""

    bins: Annotated[int, Field(ge=2, le=100)] = 15
    """Equal-width confidence bins of the calibration error and the reliability picture."""

    most_wrong: Annotated[int, Field(ge=0, le=256)] = 16
    """How many of the most confidently wrong examples are shown."""
