"""Recommender over ids and numbers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LISTED
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units

Layers = Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=16)]


class DlrmModel(OwnArchitecture):
    """A recommender over a table: a vector for each id, each text and all numbers, and the products of every pair."""

    noun: ClassVar[str] = "recommender"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["dlrm"] = "dlrm"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    embedding: Units = 16
    """Size of the vectors."""

    bottom: Layers = (64,)
    """Units of each hidden layer of the perceptron over the numbers."""

    top: Layers = (128, 64)
    """Units of each hidden layer of the perceptron over the products."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training, of the top."""
