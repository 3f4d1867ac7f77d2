"""Decoder-only transformer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.models.architecture import OwnArchitecture, Units, check_heads
from tasks.config.strategy import StrategyConfig


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
    """Attention heads of a block; without `head_dim` they divide `width` into even parts."""

    head_dim: Annotated[int | None, LATER, Field(ge=2, le=1024)] = None
    """Size of a head, an even number; default: width / heads."""

    kv_heads: Annotated[int | None, LATER, Field(ge=1, le=256)] = None
    """Heads of keys and values, which divide `heads`; each is shared by heads / kv_heads queries (grouped-query
    attention). Default: as many as `heads`."""

    hidden: Units = 704
    """Hidden units of the feed-forward layer, each with a gate; with `experts` those of each."""

    experts: Annotated[int, LATER, Field(ge=0, le=1024)] = 0
    """Feed-forward layers of a block, of which a router chooses some for each token; 0: one layer and no router. All
    are computed: more weights for a token to choose from, not fewer computations."""

    experts_per_token: Annotated[int, LATER, Field(ge=1, le=1024)] = 2
    """How many of the `experts` a token uses."""

    balance_weight: Annotated[float, LATER, Field(ge=0, le=100)] = 0.01
    """Factor of the loss that keeps the `experts` of a sequence equally used; 0: none."""

    document_mask: Annotated[Literal["auto"] | bool, LATER] = "auto"
    """Whether attention stays within a document, which begins with its first token; `auto`: where rows are packed by
    `snapshot.packing: best_fit`."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> TransformerModel:
        check_heads(self.width, self.heads, self.head_dim)
        if self.kv_heads is not None and self.heads % self.kv_heads:
            raise Conflict("kv_heads", self.kv_heads, f"must divide {self.heads} heads", "use a divisor")
        return self

    @model_validator(mode="after")
    def experts_are_several(self) -> TransformerModel:
        if self.experts == 0:
            for name in ("experts_per_token", "balance_weight"):
                if (value := getattr(self, name)) != type(self).model_fields[name].default:
                    raise Conflict(name, value, "is ignored without experts", "set experts, or leave it out")
            return self
        if self.experts < max(2, self.experts_per_token):
            rule = f"there must be two at least, and as many as experts_per_token, {self.experts_per_token}"
            raise Conflict("experts", self.experts, rule, "raise it, or use 0 for one layer without a router")
        return self

    def fit_training(self, strategy: StrategyConfig, remat: bool) -> None:
        """Raise `Conflict` for experts where a training does not compute their loss."""
        if self.experts and self.balance_weight and (remat or not strategy.adds_losses):
            setting, name = ("train.remat", "train.remat") if remat else ("train.strategy", strategy.kind)
            rule = f"{name} computes no loss but that of the outputs"
            raise Conflict("balance_weight", self.balance_weight, rule, f"set it to 0, or use another {setting}")
