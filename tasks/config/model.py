"""The task and the architecture."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from tasks.config.base import BY_KIND, LATER, LISTED, Conflict, Section

Units = Annotated[int, Field(ge=1, le=65_536)]
Dropout = Annotated[float, Field(ge=0, lt=1)]


class ConvnetModel(Section):
    """A small convolutional classifier: blocks of two 3 x 3 convolutions and a pooling, then a dense head."""

    noun: ClassVar[str] = "convolutional network"
    """Name of the architecture in a sentence."""
    reads: ClassVar[tuple[str, ...]] = ("image",)
    """The kinds of snapshot that it can be trained on."""

    kind: Literal["convnet"] = "convnet"
    """The architecture."""

    task: Literal["classification", "multilabel", "regression"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    filters: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=8)] = (32, 64)
    """Filters of each block; every block halves height and width."""

    dense: Units = 128
    """Units of the hidden dense layer."""

    dropout: Dropout = 0.3
    """Share of the dense layer's inputs dropped while training."""

    @staticmethod
    def most_blocks(height: int, width: int) -> int:
        """Return how often an image can be halved, the largest number of blocks."""
        return min(height, width).bit_length() - 1


class MlpModel(Section):
    """A multi-layer perceptron over all inputs of an example: numbers, ids, images, and texts as bags of tokens."""

    noun: ClassVar[str] = "multi-layer perceptron"
    reads: ClassVar[tuple[str, ...]] = ("image", "table")

    kind: Literal["mlp"] = "mlp"
    """The architecture."""

    task: Literal["classification", "multilabel", "regression"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    units: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=32)] = (256, 128)
    """Units of each hidden layer."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training."""

    embedding: Units = 16
    """Size of the vector of an id (a category, a token); other inputs have none."""


class TransformerModel(Section):
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
        return self


class EncoderModel(Section):
    """A bidirectional transformer over the tokens of one text, whose mean the output layer reads."""

    noun: ClassVar[str] = "encoder"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["encoder"] = "encoder"
    """The architecture."""

    task: Literal["classification", "multilabel", "regression"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    width: Units = 128
    """Size of a token's vector between blocks."""

    layers: Annotated[int, Field(ge=1, le=256)] = 2
    """Blocks of attention and feed-forward."""

    heads: Annotated[int, Field(ge=1, le=256)] = 4
    """Attention heads of a block; each has width / heads numbers, an even count."""

    hidden: Units = 352
    """Hidden units of the feed-forward layer, each with a gate."""

    dropout: Dropout = 0.1
    """Share of the embedding and of each block's outputs dropped while training."""

    rope_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the rotary embedding's wavelengths; larger for longer contexts."""

    @model_validator(mode="after")
    def heads_divide(self) -> EncoderModel:
        check_heads(self.width, self.heads)
        return self


def check_heads(width: int, heads: int) -> None:
    """Raise `Conflict` where heads do not divide a width into even parts."""
    if width % (2 * heads):
        below = width // (2 * heads) * 2 * heads
        nearest = f"set model.width to {below or 2 * heads} or {below + 2 * heads}"
        raise Conflict("heads", heads, f"must cut width {width} into even parts", nearest)


AnyModel = ConvnetModel | MlpModel | EncoderModel | TransformerModel
ModelConfig = Annotated[AnyModel, BY_KIND]

MODELS: dict[str, type[AnyModel]] = {section.model_fields["kind"].default: section for section in get_args(AnyModel)}
"""The sections by `model.kind`."""


def models_for(snapshot: str) -> tuple[str, ...]:
    """Return the values of `model.kind` that read a kind of snapshot, the default one first."""
    return tuple(kind for kind, section in MODELS.items() if snapshot in section.reads)
