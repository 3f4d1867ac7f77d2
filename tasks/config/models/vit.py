"""Vision transformer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units, check_heads


class ViTModel(OwnArchitecture):
    """A vision transformer: square patches of an image as tokens, and the blocks of the encoder."""

    noun: ClassVar[str] = "vision transformer"
    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["vit"] = "vit"
    """The architecture."""

    task: Predicts = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    patch: Annotated[int, Field(ge=1, le=256)] = 4
    """Side of a patch in pixels; it divides height and width."""

    width: Units = 128
    """Size of a patch's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 4
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    hidden: Units = 352
    """Hidden units of the feed-forward layer, each with a gate."""

    dropout: Dropout = 0.1
    """Share of each block's outputs dropped while training."""

    @model_validator(mode="after")
    def heads_divide(self) -> ViTModel:
        check_heads(self.width, self.heads, self.head_dim)
        if self.width % 4:
            raise Conflict(
                "width", self.width, "must divide by 4: sines and cosines of two axes", "use a multiple of 4"
            )
        return self

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where patches do not divide the image."""
        if height % self.patch or width % self.patch:
            rule = f"must divide {height} x {width} pixels"
            raise Conflict("patch", self.patch, rule, "use another side, or change snapshot.height and snapshot.width")
