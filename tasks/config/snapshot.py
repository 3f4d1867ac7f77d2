"""How records become fixed-layout examples."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LATER, Conflict, Section
from tasks.config.kinds import BY_KIND
from tasks.config.transform import GreyRange, Pixels, Text, TransformConfig

SERVED_AS = {"uint16": "int32", "uint32": "int32"}
"""The dtype of a model's input where no runtime has that of the snapshot."""

Shards = Annotated[int, Field(ge=1, le=10_000)]


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):  # which Python takes for 0 and 1
        raise ValueError("must be 1 or 3; choose one of them")
    return value


class ImageSnapshot(Section):
    """Images as uint8 [height, width, channels]; normalisation belongs to the model."""

    made_of: ClassVar[str | None] = "image"
    """Kind of the only input of the records; None where all inputs are read."""
    noun: ClassVar[str] = "examples"
    """Plural name of the records."""
    raw_input: ClassVar[str | None] = "IMAGE.png"
    """The input of `millrace predict`; None where it is that of the source."""

    kind: Literal["image"] = "image"
    """The layout of an example."""

    height: Pixels = 28
    """Rows of pixels; other images are resized (bilinear, antialiased)."""

    width: Pixels = 28
    """Columns of pixels; other images are resized (bilinear, antialiased)."""

    channels: Annotated[Literal[1, 3], BeforeValidator(_no_flag)] = 3
    """1: grey, 3: RGB; other images are converted."""

    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """Handling of other proportions: `stretch` changes them, `crop` keeps the middle, `pad` adds black."""

    range: Annotated[GreyRange, LATER] = "full"
    """Levels of grey images of more than 8 bits (16-bit PNG, TIFF of whole numbers or floats) that become 0 and 255;
    what is outside is clipped, and between them 256 levels are kept. `full`: all 16 bits; `auto`: those between which
    998 of 1,000 pixels of the train split are; or two numbers. Images of 8 bits stay as they are."""

    shards: Shards = 1
    """Number of array files of each feature and split."""


class TokensSnapshot(Section):
    """Text as rows of tokens: a byte-level BPE fitted on the train split, and documents packed into rows."""

    made_of: ClassVar[str | None] = "text"
    noun: ClassVar[str] = "texts"
    raw_input: ClassVar[str | None] = "FILE.txt"

    kind: Literal["tokens"] = "tokens"
    """The layout of an example."""

    vocabulary: Annotated[int, Field(ge=257, le=1_000_000)] = 4096
    """Tokens at most, with the 256 bytes and the one that begins a document; fewer where the text has no more."""

    block: Annotated[int, Field(ge=1, le=1_048_576)] = 256
    """Tokens of a row that are predicted; a row holds one more, which the next one repeats."""

    packing: Annotated[Literal["stream", "best_fit"], LATER] = "stream"
    """How documents become rows: `stream` one after another, cut wherever a row ends; `best_fit` each whole in one row
    with room for it, so that none is cut that fits; the share of padding is reported. Attention then stays within
    documents (`model.document_mask`)."""

    prompt: Annotated[Text | None, LATER] = None
    """The text column that is given and not learned, before the one that is: pairs of instruction and answer. A pair
    of more than `block` tokens is cut at its end, and counted. Needs `packing: best_fit`."""

    tokenizer_bytes: Annotated[int, Field(ge=1_000, le=10**12)] = 16_000_000
    """Bytes of train text at most on which the tokenizer is fitted: documents drawn by a keyed permutation."""

    shards: Shards = 1
    """Number of array files of each feature and split."""

    @model_validator(mode="after")
    def pairs_are_whole(self) -> TokensSnapshot:
        if self.prompt is not None and self.packing != "best_fit":
            raise Conflict("prompt", self.prompt, "needs packing: best_fit, which keeps a pair in one row", "set it")
        return self


class TableSnapshot(Section):
    """Rows of any columns, each by its transform: numbers as one float32 array, ids of categories as one int32 array,
    and an array for each text, image, sound and array of numbers."""

    made_of: ClassVar[str | None] = None
    noun: ClassVar[str] = "examples"
    raw_input: ClassVar[str | None] = None

    kind: Literal["table"] = "table"
    """The layout of an example."""

    transforms: dict[Text, TransformConfig] = {}
    """The transform of each input that does not have the one of its type: `standardise` of a number, `vocabulary` of a
    category, `tokens` of a text, `image`, `log_mel` of a sound, `time_parts`."""

    shards: Shards = 1
    """Number of array files of each feature and split."""


AnySnapshot = ImageSnapshot | TokensSnapshot | TableSnapshot
SnapshotConfig = Annotated[AnySnapshot, BY_KIND]

SNAPSHOTS: dict[str, type[AnySnapshot]] = {
    section.model_fields["kind"].default: section for section in get_args(AnySnapshot)
}
"""The sections by `snapshot.kind`."""
