"""Predictions for the first examples of the validation split at each evaluation, for the run's page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.store import files
from tasks.training.engines import Engine
from tasks.training.meter import Meter

FILE = "samples.jsonl"
"""Beside the journal: a line `{"step": 100, "predictions": [...]}` for each evaluation, a value for each example."""
COUNT = 6
"""Examples."""
BEST = 3
"""Classes of an example that are kept, the most probable ones."""


def _classes(logits: NDArray[np.float32]) -> list[Any]:
    """Return `[class number, probability]` of the most probable classes of each example."""
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return _highest(exponents / exponents.sum(axis=1, keepdims=True))


def _labels(logits: NDArray[np.float32]) -> list[Any]:
    """Return `[label number, probability]` of the most probable labels of each example."""
    return _highest(1 / (1 + np.exp(-logits)))


def _highest(probabilities: NDArray[Any]) -> list[Any]:
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :BEST]
    return [
        [[int(number), round(float(row[number]), 4)] for number in numbers]
        for row, numbers in zip(probabilities, order, strict=True)
    ]


def _values(outputs: NDArray[np.float32]) -> list[Any]:
    """Return the values of each example, as they are."""
    return [[float(f"{value:.6g}") for value in row] for row in outputs.tolist()]


PREDICTED: dict[str, Callable[[NDArray[Any]], list[Any]]] = {
    "classification": _classes,
    "multilabel": _labels,
    "anomaly": _labels,
    "ranking": _labels,
    "regression": _values,
    "language_model": lambda tokens: tokens.tolist(),
    "tagging": lambda tokens: tokens.tolist(),
}
"""What is kept of the outputs, by `model.task`."""


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
        files.append(self.file, {"step": step, "predictions": PREDICTED[self.task](engine.samples)})
        self._written.add(step)


def read(file: Path) -> list[tuple[int, list[Any]]]:
    """Return steps and predictions in order of steps; the first of a step counts."""
    rows = [row for row, _ in files.read(file)]
    return sorted({row["step"]: row["predictions"] for row in reversed(rows)}.items())
