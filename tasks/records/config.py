"""How a source becomes records: the section `records`, and the file of `records.schema_file` with rules of columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from tasks.config.base import LATER, LISTED, NOT_IDENTITY, Conflict, IsPath, Name, Section
from tasks.sources.kinds.columns import Text

UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Age = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mhd]$")]

SPLITS = ("train", "validation", "test")
RESERVED = {"examples", "read", "quarantined", "filtered", "skipped", "duplicates", "near_duplicates"}
"""Names of counts, which a split must not have."""

USUAL_NAMES: dict[str, str] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev", "development"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""The split that a source's own split becomes by its name, in lower case."""


NearHandling = Literal["report", "group", "drop"]


class NearDuplicates(Section):
    """Which examples are so similar that one of them in train and another in test would flatter a model."""

    column: Text | None = None
    """The text or image that is compared; default: the only one among the inputs."""

    similarity: Annotated[float, Field(gt=0, le=1)] | None = None
    """Similarity from which two are near-duplicates. Of texts the share of common pieces of five characters (0.8 by
    default, 0.5 at least), of images that of equal bits of their 64-bit difference hash (0.9 by default, 0.8 at
    least)."""

    handling: NearHandling = "report"
    """`report`: counted and named; `group`: a group of near-duplicates goes to the split of the example with the
    smallest hash, so that new data may move those that it is similar to, and no others; `drop`: only the first by key
    is kept, and its copies as `duplicates` says. A group is a chain: each is similar to one other at least."""


class RecordsConfig(Section):
    """By default the split is a keyed hash of each example: of its group, where `source.group` is given; else of its
    `source.key`, where that is named; else of its whole row as the source has it, labels and ignored columns too, or of
    the file's content. So neither a growing source, a renamed file, nor another choice of columns or types moves an
    example."""

    splits: dict[Name, Annotated[float, Field(gt=0, le=1)]] | Literal["official", "time"] = {
        "train": 0.8,
        "validation": 0.1,
        "test": 0.1,
    }
    """Share of each split, which sum to 1; `official`: the splits that the source itself has, or its column
    `source.split` names; `time`: by `source.time` and `records.split_times`."""

    split_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Keys the hash that assigns an example to its split and its place."""

    official: dict[Name, Annotated[tuple[Text, ...], LISTED]] = {}
    """With `splits: official`, the source's splits that each split is made of; default: by their usual names (`train`,
    `val`, `test`)."""

    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """With `splits: official`, the share of train that becomes validation where the source has no such split."""

    split_times: dict[Literal["validation", "test"], Text] = {}
    """With `splits: time`, the time in ISO 8601 from which examples belong to validation, and to test."""

    filter: Text | None = None
    """Keeps the examples for which this holds, others are counted: an SQL condition on columns, as Polars reads it
    (`age >= 18 AND city IS NOT NULL`)."""

    schema_file: Annotated[Text | None, NOT_IDENTITY, IsPath()] = None
    """YAML file with the rules of columns, relative to the preset; its content enters digests. What breaks one goes to
    `quarantine/`, within `bad_budget`."""

    shards: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of shard files of each split."""

    bad_budget: Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0, lt=1)] = 0
    """How many examples that cannot be read or break a rule are left out, before the run fails: a number, or a share
    below 1. They are in `quarantine/` with reason and place."""

    max_pixels: Annotated[int, Field(ge=1, lt=2**29)] = 64_000_000
    """Pixels of an image at most; a larger one counts as unreadable. Each process decodes one image at a time."""

    duplicates: Literal["group", "drop", "keep"] = "group"
    """Examples of identical inputs: `group` keeps all of them and puts them into one split, that of the one with the
    smallest hash; `drop` keeps the first by key; `keep` leaves each in its own split, so that copies may be in train
    and in test. With `source.group` the group decides the split. They are counted, and named where their labels
    differ."""

    near_duplicates: Annotated[NearDuplicates | None, LATER] = None
    """Similar texts or images, which are not looked for by default: `{}` counts and names them."""

    max_age: Annotated[Age | None, NOT_IDENTITY] = None
    """Refuse data whose newest file is older than this: `45m`, `36h`, `7d`. For sources of files."""

    def oldest(self) -> timedelta | None:
        """Return `max_age` as a duration."""
        if self.max_age is None:
            return None
        return timedelta(**{UNITS[self.max_age[-1]]: int(self.max_age[:-1])})

    @property
    def names(self) -> list[str]:
        """The names of the splits, sorted."""
        return sorted(self.splits if isinstance(self.splits, dict) else SPLITS)

    @field_validator("splits")
    @classmethod
    def shares_sum_to_one(cls, splits: Any) -> Any:
        if isinstance(splits, str):
            return splits
        missing = set(SPLITS) - set(splits)
        if missing:
            raise ValueError(f"must name the splits train, validation and test; add {', '.join(sorted(missing))}")
        if taken := RESERVED & set(splits):
            raise ValueError(f"a split must not be named {taken.pop()}, which counts use; choose another name")
        if abs(sum(splits.values()) - 1) > 1e-9:
            raise ValueError(f"shares must sum to 1, these sum to {sum(splits.values()):g}; change one of them")
        return splits

    @field_validator("bad_budget", mode="before")
    @classmethod
    def no_flag(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("must be a number of examples or a share below 1; give one")
        return value

    @model_validator(mode="after")
    def split_settings_fit(self) -> RecordsConfig:
        defaults = type(self).model_fields
        for name, kind in (("official", "official"), ("validation_share", "official"), ("split_times", "time")):
            if self.splits != kind and (value := getattr(self, name)) != defaults[name].default:
                raise Conflict(name, value, f"is ignored unless records.splits is {kind}", "leave it out")
        if self.official and (unknown := sorted(set(self.official) - set(SPLITS))):
            raise Conflict("official", unknown[0], f"must be one of {', '.join(SPLITS)}", "correct it")
        given: dict[str, str] = {}
        for split, names in self.official.items():
            for name in names:
                if given.setdefault(name, split) != split:
                    rule = f"becomes {' and '.join(sorted((given[name], split)))}, and an example is in one split"
                    raise Conflict("official", name, rule, "name it once")
        if self.splits == "time":
            if set(self.split_times) != {"validation", "test"}:
                rule = "must say when validation and when test begins"
                raise Conflict("split_times", dict(self.split_times), rule, "give both, in ISO 8601")
            begin, end = self.times
            if not begin < end:
                rule = "validation must begin before test"
                raise Conflict("split_times", dict(self.split_times), rule, "exchange or correct them")
        return self

    @model_validator(mode="after")
    def near_duplicates_fit(self) -> RecordsConfig:
        if self.near_duplicates is None or self.near_duplicates.handling == "report":
            return self
        name, handling = "near_duplicates.handling", self.near_duplicates.handling
        if self.duplicates == "keep":
            raise Conflict(
                name, handling, "is less than records.duplicates: keep allows", "choose report, or group copies"
            )
        if handling == "group" and isinstance(self.splits, str):
            raise Conflict(name, handling, f"would move examples out of splits: {self.splits}", "choose report or drop")
        return self

    @property
    def times(self) -> tuple[datetime, datetime]:
        """The times at which validation and test begin."""
        begin, end = (self._time(name) for name in ("validation", "test"))
        return begin, end

    def _time(self, name: Literal["validation", "test"]) -> datetime:
        text = self.split_times[name]
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            rule = "must be a time in ISO 8601"
            raise Conflict("split_times", text, rule, "write it as 2024-06-01 or 2024-06-01T12:00:00+02:00") from None
        return time if time.tzinfo else time.replace(tzinfo=UTC)


Length = Annotated[int, Field(ge=0)]


class ColumnRules(Section):
    """What the values of a column must be; a missing value breaks only `nullable`."""

    nullable: bool = True
    """Whether a value may be missing."""

    min: float | str | None = None
    """Smallest number, or earliest time in ISO 8601."""

    max: float | str | None = None
    """Largest number, or latest time in ISO 8601."""

    values: Annotated[tuple[str | float, ...], LISTED] = ()
    """The values that there are; none given: any."""

    matches: str | None = None
    """Regular expression that a text matches from its beginning."""

    min_length: Length | None = None
    """Characters of a text at least."""

    max_length: Length | None = None
    """Characters of a text at most."""


class SchemaFile(Section):
    """The rules by column; a column without rules may have any values of its type."""

    columns: dict[str, ColumnRules]
    """Rules by column."""
