"""How records become fixed-layout examples: a class a kind of snapshot, which builds it.

What computes is imported by the process that does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from tasks.config.base import LATER, Conflict
from tasks.config.kinds import Kind, any_of
from tasks.config.task import IMAGE, PREDICTED
from tasks.errors import Failed
from tasks.snapshots.fitting import TransformConfig, choose
from tasks.snapshots.transforms.media import GreyRange, Image, Pixels
from tasks.sources.features import Feature
from tasks.sources.kinds.columns import Text

if TYPE_CHECKING:
    from tasks.artifacts import Outcome, Records
    from tasks.processes.workbench import Workbench
    from tasks.records.reading import RecordsReader

Shards = Annotated[int, Field(ge=1, le=10_000)]


def no_flag(value: Any) -> Any:
    """Refuse `true`, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError("must be 1 or 3; choose one of them")
    return value


class SnapshotKind(Kind):
    """A kind of snapshot."""

    version: ClassVar[int]
    """Counts up when the same records would become other bytes."""
    libraries: ClassVar[tuple[str, ...]]
    """Packages that decide the bytes."""
    made_of: ClassVar[str | None] = None
    """Kind of the only input of the records; None where all inputs are read."""
    noun: ClassVar[str] = "examples"
    """Plural name of the records."""
    raw_input: ClassVar[str | None] = None
    """The input of `millrace predict`; None where it is that of the source."""

    def build(self, bench: Workbench, records: Records) -> Outcome:
        """Preprocess records; return counts (rows of each split), features (layout by name) and statistics.

        Raises:
            Refused: the records do not fit.
            Failed: an example cannot be preprocessed; the error names it.
        """
        raise NotImplementedError

    def transformed(self, records: RecordsReader, transform: Path) -> Iterator[int]:
        """Decode and transform the train split as `build` does, by the fitted state in a folder `transform/`; yield how
        many records are done each time, for measurements. By default as a table is."""
        from tasks.snapshots import table

        return table.transformed(records, transform)

    def own_files(self) -> list[tuple[str, str]]:
        """Return what the user's functions put into the digest; raises `Refused` where one cannot be found."""
        return []

    def input_kinds(self, features: Mapping[str, Feature]) -> dict[str, str] | None:
        """Return the kinds of the inputs that these features of a source become; None where only the snapshot tells."""
        raise NotImplementedError


class ImageSnapshot(SnapshotKind):
    """Images as uint8 [height, width, channels]; normalisation belongs to the model."""

    version: ClassVar[int] = 6
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "pillow")
    made_of: ClassVar[str | None] = "image"
    raw_input: ClassVar[str | None] = "IMAGE.png"

    kind: Literal["image"] = "image"
    """The layout of an example."""

    height: Pixels = 28
    """Rows of pixels; other images are resized (bilinear, antialiased)."""

    width: Pixels = 28
    """Columns of pixels; other images are resized (bilinear, antialiased)."""

    channels: Annotated[Literal[1, 3], BeforeValidator(no_flag)] = 3
    """1: grey, 3: RGB; other images are converted."""

    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """Handling of other proportions: `stretch` changes them, `crop` keeps the middle, `pad` adds black."""

    range: Annotated[GreyRange, LATER] = "full"
    """Levels of grey images of more than 8 bits (16-bit PNG, TIFF of whole numbers or floats) that become 0 and 255;
    what is outside is clipped, and between them 256 levels are kept. `full`: all 16 bits; `auto`: those between which
    998 of 1,000 pixels of the train split are; or two numbers. Images of 8 bits stay as they are."""

    shards: Shards = 1
    """Number of array files of each feature and split."""

    def build(self, bench: Workbench, records: Records) -> Outcome:
        """Make a table's snapshot of one column, an image, and what it is labelled with (see `table.build`).

        Raises:
            Failed: the only input of the records is not an image, or an image cannot be decoded.
        """
        from tasks.records.reading import RecordsReader
        from tasks.snapshots import table

        reader = RecordsReader(records.path)
        name = reader.single_input("image")
        if name is None:
            saw, rule = f"records of {', '.join(reader.features)}", "needs one input, an image"
            raise Failed("snapshot.kind", saw, rule, "choose a source of images, or snapshot.kind table")
        size = {field: getattr(self, field) for field in ("height", "width", "channels", "fit", "range")}
        return table.build(bench, reader, {name: Image(**size)}, self.shards)

    def input_kinds(self, features: Mapping[str, Feature]) -> dict[str, str] | None:
        return {"image": IMAGE}


class TokensSnapshot(SnapshotKind):
    """Text as rows of tokens: a byte-level BPE fitted on the train split, and documents packed into rows."""

    version: ClassVar[int] = 5
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "tokenizers")
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

    def build(self, bench: Workbench, records: Records) -> Outcome:
        from tasks.snapshots import tokens

        rows = tokens.Rows(self.block, self.packing, self.prompt, self.vocabulary, self.tokenizer_bytes, self.shards)
        return tokens.build(bench, records, rows)

    def transformed(self, records: RecordsReader, transform: Path) -> Iterator[int]:
        from tasks.snapshots import tokens

        return tokens.transformed(records, transform)

    def input_kinds(self, features: Mapping[str, Feature]) -> dict[str, str] | None:
        return {"tokens": PREDICTED}


class TableSnapshot(SnapshotKind):
    """Rows of any columns, each by its transform: numbers as one float32 array, ids of categories as one int32 array,
    and an array for each text, image, sound and array of numbers."""

    version: ClassVar[int] = 10
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "pillow", "soundfile", "tokenizers")

    kind: Literal["table"] = "table"
    """The layout of an example."""

    transforms: dict[Text, TransformConfig] = {}
    """The transform of each input that does not have the one of its type: `standardise` of a number, `vocabulary` of a
    category, `tokens` of a text, `image`, `log_mel` of a sound, `time_parts`."""

    shards: Shards = 1
    """Number of array files of each feature and split."""

    def build(self, bench: Workbench, records: Records) -> Outcome:
        from tasks.records.reading import RecordsReader
        from tasks.snapshots import table

        return table.build(bench, RecordsReader(records.path), self.transforms, self.shards)

    def own_files(self) -> list[tuple[str, str]]:
        from tasks.snapshots.transforms.function import own_sources

        return own_sources(self.transforms)

    def input_kinds(self, features: Mapping[str, Feature]) -> dict[str, str] | None:
        made: dict[str, str] = {}
        for name, transform in choose(features, self.transforms).items():
            if transform.makes is None:
                return None
            made[name] = transform.makes
        return made


SNAPSHOTS: dict[str, type[SnapshotKind]] = SnapshotKind.kinds()
"""The sections by `snapshot.kind`."""

if TYPE_CHECKING:
    SnapshotConfig = SnapshotKind
else:
    SnapshotConfig = any_of(SNAPSHOTS.values())
