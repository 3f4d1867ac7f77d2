"""Transforms: how a column of records becomes what a model reads, as learnt from the train split alone."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, StringConstraints, model_validator

from tasks.config.base import LATER, LISTED, NOT_IDENTITY, Conflict, IsPath, OwnCode, Section
from tasks.config.kinds import BY_KIND

Text = Annotated[str, StringConstraints(min_length=1)]
Pixels = Annotated[int, Field(ge=1, le=4096)]
Length = Annotated[int, Field(ge=1, le=1_048_576)]
Buckets = Annotated[int, Field(ge=2, le=10_000_000)]
Part = Literal["year", "month", "day", "weekday", "hour"]


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):  # which Python takes for 0 and 1
        raise ValueError("must be a number, or a word; choose one of them")
    return value


def _ascending(levels: tuple[float, float]) -> tuple[float, float]:
    if not levels[0] < levels[1]:
        raise ValueError("the first of two levels must be the lower one; exchange them")
    return levels


GreyRange = Literal["full", "auto"] | Annotated[tuple[FiniteFloat, FiniteFloat], LISTED, AfterValidator(_ascending)]
"""`full`, `auto`, or the lowest and the highest level of a grey image."""


class Missing(Section):
    """What stands in the place of a missing number."""

    fill: Annotated[Literal["mean", "median", "zero"] | float, BeforeValidator(_no_flag)] = "mean"
    """The number in its place: `mean` or `median` of the train split, `zero`, or a number. Of an array of numbers each
    value has its own mean."""

    indicator: Literal["auto"] | bool = "auto"
    """Whether a further number `NAME.missing` is 1 where it is missing and 0 elsewhere; `auto`: where the train split
    has a missing one. Arrays of numbers have none."""


class Transform(Section):
    """A transform of a column."""

    reads: ClassVar[tuple[str, ...]]
    """The kinds of features that it takes."""
    reads_arrays: ClassVar[bool] = False
    """Whether it takes arrays of numbers."""


class NumberTransform(Transform):
    """A transform of numbers."""

    reads: ClassVar[tuple[str, ...]] = ("number",)

    missing: Missing = Missing()
    """What fills a missing number, and whether the model has an input that says so."""


class Standardise(NumberTransform):
    """Numbers as they are, which the model standardises by the train split's mean and variance."""

    reads_arrays: ClassVar[bool] = True

    kind: Literal["standardise"] = "standardise"
    """The transform."""


class Log(NumberTransform):
    """sign(x) log(1 + |x|), which the model standardises by the train split's mean and variance; of amounts, counts."""

    reads_arrays: ClassVar[bool] = True

    kind: Literal["log"] = "log"
    """The transform."""


class Keep(NumberTransform):
    """Numbers as they are, for the model too."""

    reads_arrays: ClassVar[bool] = True

    kind: Literal["keep"] = "keep"
    """The transform."""


class Quantile(NumberTransform):
    """The rank of a number in the train split: robust to outliers and to any scale."""

    kind: Literal["quantile"] = "quantile"
    """The transform."""

    quantiles: Annotated[int, Field(ge=2, le=10_000)] = 1000
    """Number of quantiles of the train split, between which ranks are interpolated."""

    output: Literal["normal", "uniform"] = "normal"
    """`uniform`: the rank in [0, 1]; `normal`: the quantile of the standard normal distribution at that rank."""


class Bucketize(Transform):
    """The number of the interval that holds a number, as a category; a missing number is a category of its own."""

    reads: ClassVar[tuple[str, ...]] = ("number",)

    kind: Literal["bucketize"] = "bucketize"
    """The transform."""

    buckets: Annotated[int, Field(ge=2, le=10_000)] = 10
    """Number of intervals that hold about equally many examples of the train split; fewer where values repeat."""

    boundaries: Annotated[tuple[float, ...], LISTED] = ()
    """Where the intervals begin, ascending, in place of those of the train split."""

    @model_validator(mode="after")
    def boundaries_ascend(self) -> Bucketize:
        if self.boundaries and self.buckets != type(self).model_fields["buckets"].default:
            raise Conflict("buckets", self.buckets, "is ignored where boundaries are given", "leave one of them out")
        if any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise Conflict("boundaries", list(self.boundaries), "must ascend", "sort them, each once")
        return self


class Vocabulary(Transform):
    """Ids of categories: 0 missing, 1 unknown or rare, then the most frequent first."""

    reads: ClassVar[tuple[str, ...]] = ("category",)

    kind: Literal["vocabulary"] = "vocabulary"
    """The transform."""

    size: Annotated[int, Field(ge=3, le=1_000_000)] = 10_000
    """Number of ids at most; the categories that are left over are rare ones."""

    min_count: Annotated[int, Field(ge=1)] = 2
    """A category with fewer examples in the train split is a rare one. With 1 and few categories no example of it is
    rare, and a model never learns what to do with an unknown one."""


class Hash(Transform):
    """Ids of categories by a hash of their text: of any number of categories, without a vocabulary."""

    reads: ClassVar[tuple[str, ...]] = ("category",)

    kind: Literal["hash"] = "hash"
    """The transform."""

    buckets: Buckets = 1000
    """Number of ids besides 0, which is a missing one."""


class TimeParts(Transform):
    """Numbers of a time in UTC, of which the model standardises those that are not on a circle."""

    reads: ClassVar[tuple[str, ...]] = ("time",)

    kind: Literal["time_parts"] = "time_parts"
    """The transform."""

    parts: Annotated[tuple[Part, ...], LISTED, Field(min_length=1)] = get_args(Part)
    """Which numbers: `year`, `month`, `day` (of the month), `weekday` (0 is Monday), `hour`."""

    cyclical: bool = False
    """Whether all but the year become sine and cosine of their place on a circle: December is next to January."""

    indicator: Literal["auto"] | bool = "auto"
    """Whether a further number `NAME.missing` is 1 where the time is missing and 0 elsewhere; `auto`: where the train
    split has a missing one. Parts of a missing time are the train split's means."""

    @model_validator(mode="after")
    def parts_differ(self) -> TimeParts:
        if len(set(self.parts)) < len(self.parts):
            raise Conflict("parts", list(self.parts), "must differ", "name each part once")
        return self


class Tokens(Transform):
    """Rows of token ids of one length: 0 is padding, what is longer is cut."""

    reads: ClassVar[tuple[str, ...]] = ("text",)

    kind: Literal["tokens"] = "tokens"
    """The transform."""

    length: Length = 128
    """Tokens of a row."""

    method: Literal["bpe", "wordpiece", "bytes"] = "bpe"
    """`bpe`: byte-level pairs (lossless); `wordpiece`: parts of words, where an unknown character makes a word unknown;
    `bytes`: of UTF-8. The first two are fitted on the train split."""

    vocabulary: Annotated[int, Field(ge=258, le=1_000_000)] = 8192
    """Number of ids at most, with padding; fewer where the text has no more."""

    lowercase: bool = False
    """Whether letters become small ones before."""

    tokenizer_bytes: Annotated[int, Field(ge=1_000, le=10**10)] = 16_000_000
    """Bytes of train text at most on which the tokenizer is fitted, each text with 64 more; they are held in memory."""

    @model_validator(mode="after")
    def bytes_have_a_vocabulary(self) -> Tokens:
        for name in ("vocabulary", "tokenizer_bytes"):
            if self.method == "bytes" and getattr(self, name) != type(self).model_fields[name].default:
                raise Conflict(name, getattr(self, name), "is ignored by method bytes", "leave it out")
        return self


class Words(Transform):
    """Ids of the words of a list, as they are: 0 padding, 1 an unknown or rare one, then the most frequent first."""

    reads: ClassVar[tuple[str, ...]] = ("words",)

    kind: Literal["words"] = "words"
    """The transform."""

    length: Length = 128
    """Words of a row; what is longer is cut, and its words have no tags."""

    vocabulary: Annotated[int, Field(ge=3, le=1_000_000)] = 10_000
    """Number of ids at most; the words that are left over are rare ones."""

    min_count: Annotated[int, Field(ge=1)] = 2
    """A word that is there fewer times in the train split is a rare one. With 1 no word of it is rare, and a model
    never learns what to do with an unknown one."""

    lowercase: bool = False
    """Whether letters become small ones before."""


class HashWords(Transform):
    """Words of a text by a hash: how often each is there, or their ids in order; without a vocabulary."""

    reads: ClassVar[tuple[str, ...]] = ("text",)

    kind: Literal["hash_words"] = "hash_words"
    """The transform."""

    buckets: Annotated[int, Field(ge=2, le=1_000_000)] = 4096
    """Number of hashes."""

    output: Literal["counts", "ids"] = "counts"
    """`counts`: float32 [buckets]; `ids`: [length], 0 is padding."""

    length: Length = 128
    """Words of a row, where the output is `ids`."""

    lowercase: bool = True
    """Whether letters become small ones before."""

    @model_validator(mode="after")
    def counts_have_no_length(self) -> HashWords:
        if self.output == "counts" and self.length != type(self).model_fields["length"].default:
            raise Conflict("length", self.length, "is ignored where the output is counts", "leave it out")
        return self


class Image(Transform):
    """Images as uint8 [height, width, channels]; normalisation belongs to the model. A missing one is black."""

    reads: ClassVar[tuple[str, ...]] = ("image",)

    kind: Literal["image"] = "image"
    """The transform."""

    height: Pixels = 64
    """Rows of pixels; other images are resized (bilinear, antialiased)."""

    width: Pixels = 64
    """Columns of pixels."""

    channels: Annotated[Literal[1, 3], BeforeValidator(_no_flag)] = 3
    """1: grey, 3: RGB; other images are converted."""

    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """Handling of other proportions: `stretch` changes them, `crop` keeps the middle, `pad` adds black."""

    range: Annotated[GreyRange, LATER] = "full"
    """Levels of grey images of more than 8 bits (16-bit PNG, TIFF of whole numbers or floats) that become 0 and 255;
    what is outside is clipped, and between them 256 levels are kept. `full`: all 16 bits; `auto`: those between which
    998 of 1,000 pixels of the train split are; or two numbers. Images of 8 bits stay as they are."""


class LogMel(Transform):
    """Sounds as the logarithm of their mel spectrogram, float32 [frames, mels]; a missing one is silence."""

    reads: ClassVar[tuple[str, ...]] = ("audio",)

    kind: Literal["log_mel"] = "log_mel"
    """The transform."""

    rate: Annotated[int, Field(ge=1000, le=192_000)] = 16_000
    """Samples per second to which sounds are converted; channels are averaged."""

    seconds: Annotated[float, Field(gt=0, le=3600)] = 4.0
    """Length of a sound; a longer one is cut, a shorter one padded with silence."""

    window: Annotated[float, Field(gt=0, le=1)] = 0.025
    """Length of a frame in seconds."""

    hop: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Seconds from the beginning of a frame to that of the next."""

    mels: Annotated[int, Field(ge=1, le=512)] = 64
    """Number of frequency bands."""

    @model_validator(mode="after")
    def frames_fit(self) -> LogMel:
        if self.window > self.seconds:
            raise Conflict("window", self.window, f"is longer than a sound of {self.seconds} s", "make it shorter")
        for name in ("window", "hop"):
            if round(getattr(self, name) * self.rate) < 1 or (name == "window" and round(self.window * self.rate) < 2):
                raise Conflict(name, getattr(self, name), "has no two samples at this rate", "make it longer")
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Frames and mels."""
        window, hop, samples = (round(span * self.rate) for span in (self.window, self.hop, self.seconds))
        return 1 + (samples - window) // hop, self.mels


class Function(Transform):
    """A function of the user's. It takes a list with the values of some rows (float or an array, str, a list of
    str, bytes, or microseconds since 1970 in UTC) and returns an array of numbers whose first axis are these rows; the
    result of a row must not depend on the others. Snapshots and exports hold a copy of its files."""

    reads: ClassVar[tuple[str, ...]] = ("number", "category", "text", "words", "image", "audio", "time")
    reads_arrays: ClassVar[bool] = True

    kind: Literal["function"] = "function"
    """The transform."""

    function: OwnCode
    """`package.module:function`, importable from the preset's folder. It may import installed packages, and the modules
    of that folder."""

    folder: Annotated[Text, NOT_IDENTITY, IsPath()] = "."
    """The folder from which the module is imported, relative to the preset."""


AnyTransform = (
    Standardise
    | Log
    | Keep
    | Quantile
    | Bucketize
    | Vocabulary
    | Hash
    | TimeParts
    | Tokens
    | Words
    | HashWords
    | Image
    | LogMel
    | Function
)
TransformConfig = Annotated[AnyTransform, BY_KIND]

TRANSFORMS: dict[str, type[AnyTransform]] = {
    section.model_fields["kind"].default: section for section in get_args(AnyTransform)
}
"""The sections by `kind`."""

DEFAULTS: dict[str, type[Standardise | Vocabulary | Tokens | Words | Image | LogMel | TimeParts]] = {
    "number": Standardise,
    "category": Vocabulary,
    "text": Tokens,
    "words": Words,
    "image": Image,
    "audio": LogMel,
    "time": TimeParts,
}
"""The transform of a feature without one, by its kind."""
