"""Multi-layer perceptron."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LISTED
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units


class MlpModel(OwnArchitecture):
    """A multi-layer perceptron over all inputs of an example: numbers, ids, images, and texts as bags of tokens."""

    noun: ClassVar[str] = "multi-layer perceptron"
    reads: ClassVar[tuple[str, ...]] = ("image", "table")

    kind: Literal["mlp"] = "mlp"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    units: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=32)] = (256, 128)
    """Units of each hidden layer."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training."""

    embedding: Units = 16
    """Size of the vector of an id (a category, a token); other inputs have none."""
