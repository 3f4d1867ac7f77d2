"""Several trainings of a config, each with a seed of its own, and what is chosen among their models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.artifacts import Artifact
from tasks.training import MODEL_LIBRARIES

if TYPE_CHECKING:
    pass


CHOICE_VERSION = 1
"""Incremented when the same models would give another choice, or another average."""

CHOICE_LIBRARIES = (*MODEL_LIBRARIES, "scipy")

CHOICE = "seeds.json"
"""File of a chosen model with the scores of all."""

SPLITS = ("validation", "test")
"""The first one chooses; the second one is only reported."""

OVER_SEEDS, AVERAGE = "seeds", "average"
"""Beginnings of the flat names of means over seeds, and of the scores of the averaged weights."""


def name_of(number: int) -> str:
    """Return the name of a training by its number, from 0."""
    return f"seed_{number}"


def seed_of(seed: int, number: int) -> int:
    """Return the seed of a training by its number: of number 0 that of the run, of others a 63-bit hash of both."""
    if number == 0:
        return seed
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name_of(number)}".encode(), digest_size=8).digest(), "little") >> 1


@dataclass(frozen=True)
class Choice:
    """What was chosen among the models of several seeds, and their scores."""

    metric: str
    """The task's primary metric."""
    chosen: str
    """The name of the training whose model it is, or `average`."""
    select: str
    """`train.select`."""
    seeds: dict[str, dict[str, Any]]
    """By the name of a training its `seed`, its `steps` and its `metrics` by flat name (`validation/accuracy`)."""
    average: dict[str, float] | None
    """The metrics of the averaged weights; None where `train.select` is not `average`."""
    over_seeds: dict[str, dict[str, float]]
    """Mean (`value`) and 95 % t interval (`low`, `high`) of each metric over the trainings."""

    @property
    def metrics(self) -> dict[str, float]:
        """All numbers by flat name: `seed_0/test/loss`, `seeds/test/loss`, `seeds/test/loss/low`, `.../high`."""
        flat = {f"{name}/{key}": value for name, row in self.seeds.items() for key, value in row["metrics"].items()}
        flat |= {f"{AVERAGE}/{key}": value for key, value in (self.average or {}).items()}
        for key, row in self.over_seeds.items():
            flat[f"{OVER_SEEDS}/{key}"] = row["value"]
            flat |= {f"{OVER_SEEDS}/{key}/{end}": row[end] for end in ("low", "high")}
        return flat

    @property
    def columns(self) -> list[str]:
        """The flat names of the metrics of each model, those that decide first."""
        return [f"{split}/{name}" for split in SPLITS for name in (self.metric, "loss")]

    @property
    def verdict(self) -> str:
        """Which model was chosen, in words."""
        scores = {name: row["metrics"][f"validation/{self.metric}"] for name, row in self.seeds.items()}
        count, word = len(self.seeds), self.metric.replace("_", " ")
        if self.chosen == AVERAGE:
            assert self.average is not None
            return f"the average of {count} seeds, validation {word} {self.average[f'validation/{self.metric}']:.4f}"
        best = f"{self.chosen}, the best of {count} seeds, validation {word} {scores[self.chosen]:.4f}"
        if self.average is None:
            return best
        return f"{best}; their average has {self.average[f'validation/{self.metric}']:.4f} and is not better"


def choice_of(model: Artifact) -> Choice | None:
    """Return what was chosen among several seeds; None for the model of one training."""
    path = model.path / CHOICE
    return read_choice(json.loads(path.read_bytes())) if path.exists() else None


def read_choice(content: Mapping[str, Any]) -> Choice:
    """Return the choice of the content of `seeds.json`."""
    return Choice(**content)
