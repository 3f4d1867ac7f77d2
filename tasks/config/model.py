"""The task and the architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tasks.config.base import Section

Units = Annotated[int, Field(ge=1, le=65_536)]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class ConvnetModel(Section):
    """A small convolutional classifier: blocks of two 3 x 3 convolutions and a pooling, then a dense head."""

    kind: Literal["convnet"] = "convnet"
    """The architecture."""

    task: Literal["classification"] = "classification"
    """Brings the loss, the metrics, their intervals and the pictures."""

    filters: Annotated[tuple[Units, ...], Field(min_length=1, max_length=8)] = (32, 64)
    """Filters of each block; every block halves height and width."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.3
    """Share of the dense layer's inputs dropped while training."""


class MlpModel(Section):
    """A multi-layer perceptron over the flattened example."""

    kind: Literal["mlp"] = "mlp"
    """The architecture."""

    task: Literal["classification"] = "classification"
    """Brings the loss, the metrics, their intervals and the pictures."""

    units: Annotated[tuple[Units, ...], Field(min_length=1, max_length=32)] = (256, 128)
    """Units of each hidden layer."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training."""


ModelConfig = Annotated[ConvnetModel | MlpModel, Field(discriminator="kind")]
