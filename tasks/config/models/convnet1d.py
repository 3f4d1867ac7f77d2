"""Convolutional network over a series."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LISTED
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units


class Convnet1dModel(OwnArchitecture):
    """A convolutional network over time: of a sound's spectrogram, or of a series of numbers."""

    noun: ClassVar[str] = "convolutional network over time"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["convnet1d"] = "convnet1d"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    filters: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=12)] = (64, 128)
    """Filters of each block; every block halves the number of steps."""

    window: Annotated[int, Field(ge=1, le=1024)] = 5
    """Steps that a filter reads."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.2
    """Share of the dense layer's inputs dropped while training."""
