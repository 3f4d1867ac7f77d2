"""Compressed variants and their gates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import LISTED, NOT_IDENTITY, Section


class CompressConfig(Section):
    """The float SavedModel and the float LiteRT file are always made; methods add to them."""

    methods: Annotated[tuple[Literal["int8_dynamic"], ...], LISTED, NOT_IDENTITY] = ("int8_dynamic",)
    """`int8_dynamic`: int8 weights per channel, activations quantised as they pass (LiteRT)."""

    max_size_ratio: Annotated[float, Field(gt=0, le=1)] = 0.35
    """Largest accepted size of an int8 file, as a share of the float LiteRT file."""

    max_quality_loss: Annotated[float, Field(ge=0)] | None = None
    """Largest accepted upper 95 % bound of what the task's primary metric loses on the test split against float.
    Default: 0.02 of accuracy or F1, 0.01 bits per byte, 2 % of a regression's error."""

    undecided: Annotated[Literal["keep", "reject"], NOT_IDENTITY] = "keep"
    """Whether a variant that has too few test examples for a decision is exported, and marked, or rejected."""

    max_difference: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Largest accepted difference between a float form's outputs and Keras', as a share of the largest output (or of
    1, if that is smaller): on the test split, and in a fresh process on the golden inputs of the export."""

    max_latency_ratio: Annotated[Annotated[float, Field(gt=0)] | None, NOT_IDENTITY] = None
    """Largest accepted latency against float LiteRT; default: measured and reported, not judged."""
