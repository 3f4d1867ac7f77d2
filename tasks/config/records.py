"""How the records are split and sharded."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from tasks.config.base import NOT_IDENTITY, Name, Section

UNITS = {"m": "minutes", "h": "hours", "d": "days"}

Age = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}[mhd]$")]


class RecordsConfig(Section):
    """The split is a keyed hash of each example's key, so that a growing source never moves an example."""

    splits: dict[Name, Annotated[float, Field(gt=0, le=1)]] = {"train": 0.8, "validation": 0.1, "test": 0.1}
    """Share of each split; the shares sum to 1."""

    split_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Keys the hash that assigns an example to its split."""

    shards: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Number of shard files of each split."""

    bad_budget: Annotated[int, Field(ge=0)] = 0
    """How many unreadable examples are left out, counted and named, before the run fails."""

    max_age: Annotated[Age | None, NOT_IDENTITY] = None
    """Refuse data whose newest file is older than this: `45m`, `36h`, `7d`. For sources of files."""

    def oldest(self) -> timedelta | None:
        """`max_age` as a span of time."""
        if self.max_age is None:
            return None
        return timedelta(**{UNITS[self.max_age[-1]]: int(self.max_age[:-1])})

    @field_validator("splits")
    @classmethod
    def shares_sum_to_one(cls, splits: dict[str, float]) -> dict[str, float]:
        missing = {"train", "validation", "test"} - set(splits)
        if missing:
            raise ValueError(f"must name the splits train, validation and test; add {', '.join(sorted(missing))}")
        if taken := {"examples", "bad", "skipped"} & set(splits):
            raise ValueError(f"a split must not be named {taken.pop()}, which counts use; choose another name")
        if abs(sum(splits.values()) - 1) > 1e-9:
            raise ValueError(f"shares must sum to 1, these sum to {sum(splits.values()):g}; change one of them")
        return splits
