"""How the records are split and sharded."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from tasks.config.base import NOT_IDENTITY, Name, Section

UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Age = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mhd]$")]


class RecordsConfig(Section):
    """The split is a keyed hash of each example's content (of its group, where it has one; of its key with
    `duplicates: keep`), so that a growing source never moves an example, and copies stay together."""

    splits: dict[Name, Annotated[float, Field(gt=0, le=1)]] = {"train": 0.8, "validation": 0.1, "test": 0.1}
    """Share of each split; the shares sum to 1."""

    split_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Keys the hash that assigns an example to its split."""

    shards: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of shard files of each split."""

    bad_budget: Annotated[int, Field(ge=0)] = 0
    """How many unreadable examples are left out, counted and named, before the run fails."""

    max_pixels: Annotated[int, Field(ge=1, lt=2**29)] = 64_000_000
    """Pixels of an image at most; a larger one counts as unreadable. As many are decoded at the same time."""

    duplicates: Literal["group", "drop", "keep"] = "group"
    """Examples of identical content, their labels left out: `group` keeps all of them and puts them into one split,
    `drop` keeps the first by key, `keep` splits each by its key, so that copies may be in train and in test. With
    `source.group` the group decides the split. They are counted, and named where their labels differ."""

    max_age: Annotated[Age | None, NOT_IDENTITY] = None
    """Refuse data whose newest file is older than this: `45m`, `36h`, `7d`. For sources of files."""

    def oldest(self) -> timedelta | None:
        """Return `max_age` as a duration."""
        if self.max_age is None:
            return None
        return timedelta(**{UNITS[self.max_age[-1]]: int(self.max_age[:-1])})

    @field_validator("splits")
    @classmethod
    def shares_sum_to_one(cls, splits: dict[str, float]) -> dict[str, float]:
        missing = {"train", "validation", "test"} - set(splits)
        if missing:
            raise ValueError(f"must name the splits train, validation and test; add {', '.join(sorted(missing))}")
        if taken := {"examples", "bad", "skipped", "duplicates"} & set(splits):
            raise ValueError(f"a split must not be named {taken.pop()}, which counts use; choose another name")
        if abs(sum(splits.values()) - 1) > 1e-9:
            raise ValueError(f"shares must sum to 1, these sum to {sum(splits.values()):g}; change one of them")
        return splits
