"""Convolutional classifier."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LISTED, Conflict
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units


class ConvnetModel(OwnArchitecture):
    """A small convolutional classifier: blocks of two 3 x 3 convolutions and a pooling, then a dense head."""

    noun: ClassVar[str] = "convolutional network"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["convnet"] = "convnet"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    filters: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=8)] = (32, 64)
    """Filters of each block; every block halves height and width."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.3
    """Share of the dense layer's inputs dropped while training."""

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where an image cannot be halved by every block."""
        most = min(height, width).bit_length() - 1
        if len(self.filters) > most:
            size = f"{height} x {width} pixels"
            rule = f"every block halves the image, and {size} have room for {most}"
            remedy = f"give at most {most} values" if most else "use model.kind mlp"
            raise Conflict("filters", list(self.filters), rule, f"{remedy}, or make the image larger")
