"""Transformer encoder."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER
from tasks.config.models.architecture import Dropout, OwnArchitecture, Predicts, Units, check_heads


class EncoderModel(OwnArchitecture):
    """A bidirectional transformer over the tokens of one text, whose mean the output layer reads; of `tagging` each."""

    noun: ClassVar[str] = "encoder"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["encoder"] = "encoder"
    """The architecture."""

    task: Predicts | Literal["tagging"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    width: Units = 128
    """Size of a token's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 2
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    hidden: Units = 352
    """Hidden units of the feed-forward layer, each with a gate."""

    dropout: Dropout = 0.1
    """Share of the embedding and of each block's outputs dropped while training."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> EncoderModel:
        check_heads(self.width, self.heads, self.head_dim)
        return self
