"""Decoder-only transformer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.models.architecture import OwnArchitecture, Units, check_heads


class TransformerModel(OwnArchitecture):
    """A decoder-only transformer over tokens: rotary positions, SwiGLU, one matrix for tokens in and out."""

    noun: ClassVar[str] = "transformer"
    reads: ClassVar[tuple[str, ...]] = ("tokens",)

    kind: Literal["transformer"] = "transformer"
    """The architecture."""

    task: Literal["language_model"] = "language_model"
    """Determines the default loss, the metrics, their intervals and the plots."""

    width: Units = 256
    """Size of a token's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 3
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; each has width / heads numbers, an even count."""

    kv_heads: Annotated[int | None, LATER, Field(ge=1, le=256)] = None
    """Heads of keys and values, which divide `heads`; each is shared by heads / kv_heads queries (grouped-query
    attention). Default: as many as `heads`."""

    hidden: Units = 704
    """Hidden units of the feed-forward layer, each with a gate."""

    document_mask: Annotated[Literal["auto"] | bool, LATER] = "auto"
    """Whether attention stays within a document, which begins with its first token; `auto`: where rows are packed by
    `snapshot.packing: best_fit`."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> TransformerModel:
        check_heads(self.width, self.heads)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise Conflict("kv_heads", self.kv_heads, f"must divide {self.heads} heads", "use a divisor")
        return self
