"""Measured values as `report.json` has them: with their intervals, and beside the baselines.

The flow's process reads them for its gates; what estimates them is imported where a model is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.config.task import TASKS

if TYPE_CHECKING:
    from tasks.evaluation.estimates import Estimate

LEVEL = 0.95
"""Level of every interval."""

CONSTANT, LEARNED = "constant", "learned"
"""Values of `promote.baseline` besides `none`."""


@dataclass(frozen=True)
class Value:
    """A metric's value without an interval."""

    value: float

    def as_json(self) -> dict[str, Any]:
        """Return it for `report.json`; `low` and `high` are null."""
        return {"value": self.value, "low": None, "high": None}

    def flat(self, name: str) -> dict[str, float]:
        """Return it under `name`, for metrics by flat name."""
        return {name: self.value}


@dataclass(frozen=True)
class Interval(Value):
    """A metric's value and its 95 % interval."""

    low: float
    high: float
    method: str
    units: int
    """The independent units that decide how wide it is: of rare positives, the positives."""

    @classmethod
    def of(cls, estimate: Estimate, level: float = LEVEL) -> Interval:
        """Return the interval of an estimate."""
        return cls(estimate.value, *estimate.ends(level), estimate.method, estimate.units)

    def as_json(self) -> dict[str, Any]:
        """Return it for `report.json`."""
        return {**self.ends, "method": self.method, "units": self.units}

    @property
    def ends(self) -> dict[str, float]:
        """The value and both ends by name."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def flat(self, name: str) -> dict[str, float]:
        """Return it as `<name>`, `<name>/low` and `<name>/high`, for metrics by flat name."""
        return {name: self.value, f"{name}/low": self.low, f"{name}/high": self.high}


@dataclass(frozen=True)
class BesideBaseline:
    """A baseline on the examples of a model, and how far the model is from it."""

    name: str
    value: float
    difference: Interval
    """The model's value minus that of the baseline."""
    more_than_noise: bool

    def better(self, higher_is_better: bool) -> bool:
        """Return whether the model is better by more than noise."""
        return self.more_than_noise and (self.difference.value > 0) == higher_is_better

    def as_json(self) -> dict[str, Any]:
        """Return all but the name, for `report.json`."""
        difference = self.difference.as_json()
        return {"value": self.value, "difference": difference, "more_than_noise": self.more_than_noise}

    @classmethod
    def from_json(cls, name: str, row: Mapping[str, Any]) -> BesideBaseline:
        """Return it from `report.json`."""
        return cls(name, row["value"], Interval(**row["difference"]), row["more_than_noise"])


def asked(test: Mapping[str, Any], which: str, task: str) -> list[BesideBaseline]:
    """Return the baselines that `promote.baseline` asks a model to be better than.

    Args:
        test: the fields of the test split in `report.json`.
        which: `none`, `constant`, or `learned`, which asks for the constant ones too.
    """
    rows: list[BesideBaseline] = []
    if which in (CONSTANT, LEARNED):
        rows += [BesideBaseline.from_json(TASKS[task].short(name), row) for name, row in test["baselines"].items()]
    if which == LEARNED and (row := test["learned_baseline"]) is not None:
        rows.append(BesideBaseline.from_json(row["name"], row))
    return rows
