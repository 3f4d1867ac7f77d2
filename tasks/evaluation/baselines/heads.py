"""What a task makes of a kind's estimators: outputs like those of a model, for the task's judge.

A class that no train example has gets the probability `SMALLEST`; a label that is always or never true, and a target
past `MODELS`, get their share or mean in train.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from tasks.evaluation.baselines.kind import Floats, Kind

SMALLEST = 1e-6
"""Probability of what was never seen."""
MODELS = 20
"""Labels or targets with a model of their own, at most: the first ones."""
CLASSES = 100
"""Classes that are learned, at most: the most frequent ones."""
ITERATIONS, TOGETHER, LEAST = 100, 300, 10
"""Iterations of a model; of all classes, labels or targets together; and of each of many."""

Values = Any
"""Array or sparse matrix, [rows, columns]."""
Weights = npt.NDArray[np.float64]


class Head(Protocol):
    """A trained baseline."""

    of_classes: ClassVar[bool]
    """Whether the truth is a class, the array `label`; otherwise the array `target`."""
    left_out: tuple[str, ...]
    """What it does not learn, in words."""

    def __init__(self, kind: Kind, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        """Train the estimators of a kind.

        Args:
            values: what the kind reads of the train examples, [rows, columns].
            truth: their labels int64 [rows], or targets float32 [rows, targets].
            weights: what each of them counts, [rows].
            classes: number of classes; 0 of a task without them.
        """
        ...

    def outputs(self, values: Values) -> Floats:
        """Return the outputs of the task, float32 [rows, outputs]."""
        ...


class Classes:
    """The logarithm of each class's probability."""

    of_classes: ClassVar[bool] = True

    def __init__(self, kind: Kind, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        counts = np.bincount(truth, minlength=classes)
        most = np.argsort(-counts, kind="stable")[:CLASSES]
        self.known, self.count = np.sort(most[counts[most] > 0]), classes
        rare = int((counts > 0).sum()) - len(self.known)
        self.left_out: tuple[str, ...] = (f"the {rare:,} least frequent classes",) if rare else ()
        self._model = None
        if len(self.known) > 1:
            models = 1 if len(self.known) == 2 else len(self.known)
            used = np.flatnonzero(np.isin(truth, self.known))
            self._model = _trained(kind.classifier(_iterations(models)), values[used], truth[used], weights[used])

    def outputs(self, values: Values) -> Floats:
        """Return log-probabilities in the order of the class names, float32 [rows, classes]."""
        chances = np.full((values.shape[0], self.count), SMALLEST)
        with _alone():
            known = 1.0 if self._model is None else self._model.predict_proba(values)
        chances[:, self.known] = np.maximum(known, SMALLEST)
        return np.log(chances).astype(np.float32)


class Labels:
    """A logit for each label."""

    of_classes: ClassVar[bool] = False

    def __init__(self, kind: Kind, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        holds = truth > 0.5
        shares = np.average(holds, axis=0, weights=weights)
        self._always: Weights = logit(np.clip(shares, SMALLEST, 1 - SMALLEST))
        learned = [label for label in range(holds.shape[1])[:MODELS] if 0 < shares[label] < 1]
        self.left_out = _beyond("labels", holds.shape[1])
        iterations = _iterations(len(learned))
        self._models = {n: _trained(kind.classifier(iterations), values, holds[:, n], weights) for n in learned}

    def outputs(self, values: Values) -> Floats:
        """Return logits, float32 [rows, labels]."""
        found = np.tile(self._always, (values.shape[0], 1))
        with _alone():
            for label, model in self._models.items():
                chances = model.predict_proba(values)[:, 1]
                found[:, label] = logit(np.clip(chances, SMALLEST, 1 - SMALLEST))
        return found.astype(np.float32)


class Numbers:
    """A number for each target, in its units."""

    of_classes: ClassVar[bool] = False

    def __init__(self, kind: Kind, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        numbers = truth.astype(np.float64)
        self._means: Weights = np.average(numbers, axis=0, weights=weights)
        self.left_out = _beyond("targets", numbers.shape[1])
        learned = range(numbers.shape[1])[:MODELS]
        iterations = _iterations(len(learned))
        self._models = [_trained(kind.regressor(iterations), values, numbers[:, n], weights) for n in learned]

    def outputs(self, values: Values) -> Floats:
        """Return numbers, float32 [rows, targets]."""
        found = np.tile(self._means, (values.shape[0], 1))
        with _alone():
            for target, model in enumerate(self._models):
                found[:, target] = model.predict(values)
        return found.astype(np.float32)


HEADS: dict[str, type[Head]] = {
    "classification": Classes,
    "multilabel": Labels,
    "anomaly": Labels,
    "ranking": Labels,
    "regression": Numbers,
}
"""By `model.task`."""


def _beyond(what: str, count: int) -> tuple[str, ...]:
    return (f"{what} after the first {MODELS}",) if count > MODELS else ()


def _iterations(models: int) -> int:
    """Return the iterations of each of so many models that are trained, or classes that are distinguished."""
    return max(LEAST, min(ITERATIONS, TOGETHER // max(models, 1)))


def _trained(estimator: Any, values: Values, truth: Any, weights: Weights) -> Any:
    with _alone():
        return estimator.fit(values, truth, sample_weight=weights)


@contextmanager
def _alone() -> Iterator[None]:
    """Compute by one thread, so that sums have one order, and do not warn that iterations are few, which is meant."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
