"""Predictions for the first examples of the validation split at each evaluation, for the run's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tasks.config.base import subclasses
from tasks.config.task import LABEL, TARGET, UNTAGGED
from tasks.models.features import TOKENS, classes, targets
from tasks.store import files
from tasks.training.engines import Engine
from tasks.training.meter import Meter

FILE = "samples.jsonl"
"""Beside the journal: a line `{"step": 100, "predictions": [...]}` for each evaluation, a value for each example."""
COUNT = 6
"""Examples."""
BEST = 3
"""Classes of an example that are kept, the most probable ones."""


Arrays = Mapping[str, NDArray[Any]]
Features = dict[str, Any]
Cell = tuple[str, bool | None]
"""A prediction as text, and whether it is right; None where that is no question of yes or no."""


class Sample:
    """The predictions of a task: what is kept of them, and what a person reads."""

    task: ClassVar[str]
    """Its name in `model.task`."""

    @staticmethod
    def kept(outputs: NDArray[Any]) -> list[Any]:
        """Return what is kept of the outputs [examples, ...] as JSON, a value for each example."""
        raise NotImplementedError

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        """Return the right answer of an example, whose arrays are given."""
        raise NotImplementedError

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        """Return what was kept of an example as text; `decoded` gives the text of an array of tokens by its name."""
        raise NotImplementedError


class ClassSample(Sample):
    """`[class number, probability]` of the most probable classes."""

    task = "classification"

    @staticmethod
    def kept(outputs: NDArray[Any]) -> list[Any]:
        exponents = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return _highest(exponents / exponents.sum(axis=1, keepdims=True))

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        return classes(features)[int(arrays[LABEL])]

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        (best, probability), *_ = kept
        return f"{classes(features)[best]} {probability:.0%}", best == int(arrays[LABEL])


class LabelsSample(Sample):
    """`[label number, probability]` of the most probable labels."""

    task = "multilabel"

    @staticmethod
    def kept(outputs: NDArray[Any]) -> list[Any]:
        return _highest(1 / (1 + np.exp(-outputs)))

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        names = targets(features)
        return ", ".join(names[number] for number in np.flatnonzero(arrays[TARGET])) or "none"

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        names = targets(features)
        return ", ".join(f"{names[number]} {probability:.0%}" for number, probability in kept), None


class AnomalySample(LabelsSample):
    """The probability of an anomaly."""

    task = "anomaly"


class RankingSample(LabelsSample):
    """The probability that a document is relevant."""

    task = "ranking"


class NumbersSample(Sample):
    """The predicted numbers."""

    task = "regression"

    @staticmethod
    def kept(outputs: NDArray[Any]) -> list[Any]:
        return [[float(f"{value:.6g}") for value in row] for row in outputs.tolist()]

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        return ", ".join(f"{value:.4g}" for value in arrays[TARGET].ravel())

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        return ", ".join(f"{value:.4g}" for value in kept), None


class TagsSample(Sample):
    """The most probable class of each token."""

    task = "tagging"

    @staticmethod
    def kept(outputs: NDArray[Any]) -> list[Any]:
        rows: list[Any] = outputs.tolist()
        return rows

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        return _named(arrays[LABEL], arrays, features)

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        return _named(np.array(kept), arrays, features), None


class TokensSample(TagsSample):
    """The most probable token at each position; what is right is the text itself."""

    task = "language_model"

    @staticmethod
    def right(arrays: Arrays, features: Features) -> str:
        return ""

    @staticmethod
    def cell(kept: Any, arrays: Arrays, features: Features, decoded: Callable[[str, NDArray[Any]], str]) -> Cell:
        return decoded(TOKENS, np.array(kept)), None


SAMPLES: dict[str, type[Sample]] = {each.task: each for each in subclasses(Sample)}
"""By `model.task`."""


def _highest(probabilities: NDArray[Any]) -> list[Any]:
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :BEST]
    return [
        [[int(number), round(float(row[number]), 4)] for number in numbers]
        for row, numbers in zip(probabilities, order, strict=True)
    ]


def _named(numbers: NDArray[Any], arrays: Arrays, features: Features) -> str:
    """Return the classes of the tokens of an example."""
    return " ".join(classes(features)[number] for number in numbers[arrays[LABEL] != UNTAGGED].tolist())


@dataclass
class Samples:
    """Appends the predictions of an evaluation that this process has made; a step is written once."""

    every: int
    file: Path
    task: str
    _written: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self._written = {step for step, _ in read(self.file)}

    def sync(self) -> None:
        """Bring what is written to the disk."""
        files.sync_lines(self.file)

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        if engine.samples is None or step in self._written:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        files.append(self.file, {"step": step, "predictions": SAMPLES[self.task].kept(engine.samples)})
        self._written.add(step)


def read(file: Path) -> list[tuple[int, list[Any]]]:
    """Return steps and predictions in order of steps; the first of a step counts."""
    rows = [row for row, _ in files.read(file)]
    return sorted({row["step"]: row["predictions"] for row in reversed(rows)}.items())
