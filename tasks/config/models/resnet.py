"""Residual convolutional network."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LATER, LISTED, Conflict
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units

Blocks = Annotated[int, Field(ge=1, le=64)]


class ResNetModel(OwnArchitecture):
    """A residual network: stages of blocks of two 3 x 3 convolutions, each block added to its input.

    Group normalisation, whose statistics are those of one example: the result is the same on any number of devices and
    with any number of micro-batches.
    """

    noun: ClassVar[str] = "residual network"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["resnet"] = "resnet"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    blocks: Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], LISTED, Field(min_length=1, max_length=6)] = (
        2,
        2,
        2,
    )
    """Blocks of each stage; every stage but the first halves height and width, and doubles the filters."""

    filters: Units = 32
    """Filters of the first stage."""

    groups: Annotated[int, Field(ge=1, le=1024)] = 8
    """Groups of channels that are normalised together; they divide `filters`."""

    inner_groups: Annotated[int | None, LATER, Field(ge=1, le=1024)] = None
    """Groups of channels between the two convolutions of a block, each of as many channels as one of `groups`; default:
    as many as `groups`. Fewer make a block narrower within."""

    dropout: Dropout = 0.0
    """Share of the head's inputs dropped while training."""

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where an image cannot be halved by every stage, or groups do not divide the filters."""
        if self.filters % self.groups:
            raise Conflict("groups", self.groups, f"must divide the {self.filters} filters", "use another number")
        most = min(height, width).bit_length()
        if len(self.blocks) > most:
            rule = f"every stage but the first halves the image, and {height} x {width} pixels have room for {most}"
            raise Conflict("blocks", list(self.blocks), rule, f"give at most {most} values, or make the image larger")
