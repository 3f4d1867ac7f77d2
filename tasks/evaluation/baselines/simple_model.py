"""What a learned baseline is: how it reads examples, which estimators it is made of, how a report asks it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from tasks.config.base import subclasses
from tasks.config.task import LABEL, TARGET, WEIGHT
from tasks.evaluation.judging import SMALLEST, Judge
from tasks.evaluation.splits import SnapshotSplit

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

SEED = 0


class SimpleModel:
    """Reads the examples of one kind of data; a class of `kinds`."""

    reads: ClassVar[tuple[str, ...]] = ()
    """The kinds of the inputs that it reads."""
    name: ClassVar[str]
    """The name of the model, as `gradient boosting`."""
    rows: ClassVar[int]
    """Train examples that it learns from, at most."""
    left_out: tuple[str, ...]
    """What of the inputs it does not see, in words."""

    @classmethod
    def readable(cls, train: SnapshotSplit, names: list[str]) -> list[str]:
        """Return those of the inputs of its kinds that it can read."""
        return names

    def __init__(self, train: SnapshotSplit, rows: Rows, names: list[str]) -> None:
        """Learn what reading needs (categories, words, scales) from train rows; `names`: the inputs of its kinds."""
        raise NotImplementedError

    def values(self, split: SnapshotSplit, rows: Rows) -> Any:
        """Return what the estimators read of some rows of a split, [rows, columns]: an array, or a sparse matrix."""
        raise NotImplementedError

    def classifier(self, iterations: int) -> Any:
        """Return an untrained classifier of scikit-learn."""
        raise NotImplementedError

    def regressor(self, iterations: int) -> Any:
        """Return an untrained regressor of scikit-learn."""
        raise NotImplementedError


def evenly(total: int, most: int) -> Rows:
    """Return `most` evenly spaced numbers below `total`, or all where there are no more: without a draw, and from every
    part of what is stored in some order."""
    count = min(total, most)
    return np.arange(count) * total // max(count, 1)


class Learned:
    """A simple model, trained on the train split."""

    name: str
    """What it is, as `gradient boosting`."""
    rows: int
    """Train examples that it learned from."""
    left_out: tuple[str, ...] = ()
    """What it does not see, in words."""
    seconds: float = 0.0
    """Time that it took so far; in no report, whose bytes are the same each time."""

    def predictions(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Return the judge's `Predictions` for the examples of a split, from which any metric of the task follows."""
        with self.timed():
            return self.predict(judge, split)

    def predict(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Do the work of `predictions`."""
        raise NotImplementedError

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time of what is done within to `seconds`."""
        started = time.monotonic()
        yield
        self.seconds += time.monotonic() - started


BLOCK = 4096
"""Examples that are in memory at once."""


class Estimated(Learned):
    """Has outputs as the model's: logits, or numbers in the targets' units."""

    def __init__(self, head: type[Head], kind: type[SimpleModel], names: list[str], train: SnapshotSplit) -> None:
        """Train on rows that are evenly spaced in the train split's stored order, with their weights.

        Args:
            names: the inputs of the records that the kind reads.
        """
        with self.timed():
            total = _rows(train)
            rows = evenly(total, kind.rows)
            self.name, self.rows = kind.name, len(rows)
            weights = (
                np.asarray(train.arrays[WEIGHT][rows], np.float64) if WEIGHT in train.arrays else np.ones(len(rows))
            )
            truth = np.asarray(train.arrays[LABEL if head.of_classes else TARGET][rows])
            classes = len(train.features[LABEL]["classes"]) if head.of_classes else 0
            self.kind = kind(train, rows, names)
            self.head = head(self.kind, self.kind.values(train, rows), truth, weights, classes)
        fewer = (f"all but {len(rows):,} of {total:,} train examples",) if len(rows) < total else ()
        others = [feature.kind for name, feature in train.raw.items() if feature.role == "input" and name not in names]
        counts = {each: others.count(each) for each in sorted(set(others))}
        unread = tuple(f"{count} {each} column{'s' * (count > 1)}" for each, count in counts.items())
        self.left_out = (*fewer, *unread, *self.kind.left_out, *self.head.left_out)

    def outputs(self, split: SnapshotSplit) -> Floats:
        """Return the outputs by row, float32 [rows, classes, labels or targets]."""
        total = _rows(split)
        blocks = (np.arange(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))
        return np.concatenate([self.head.outputs(self.kind.values(split, rows)) for rows in blocks])

    def predict(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Return what the judge makes of the outputs, as of a model's."""
        return judge.predictions(judge.keep(self.outputs(split), 0))


def _rows(split: SnapshotSplit) -> int:
    return len(next(iter(split.arrays.values())))


MODELS = 20
"""Labels or targets with a model of their own, at most: the first ones."""
CLASSES = 100
"""Classes that are learned, at most: the most frequent ones."""
ITERATIONS, TOGETHER, LEAST = 100, 300, 10
"""Iterations of a model; of all classes, labels or targets together; and of each of many."""

Values = Any
"""Array or sparse matrix, [rows, columns]."""
Weights = npt.NDArray[np.float64]


class Head:
    """A trained baseline."""

    tasks: ClassVar[tuple[str, ...]]
    """Those that it is for."""
    of_classes: ClassVar[bool]
    """Whether the truth is a class, the array `label`; otherwise the array `target`."""
    left_out: tuple[str, ...]
    """What it does not learn, in words."""

    def __init__(self, kind: SimpleModel, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        """Train the estimators of a kind.

        Args:
            values: what the kind reads of the train examples, [rows, columns].
            truth: their labels int64 [rows], or targets float32 [rows, targets].
            weights: what each of them counts, [rows].
            classes: number of classes; 0 of a task without them.
        """
        raise NotImplementedError

    def outputs(self, values: Values) -> Floats:
        """Return the outputs of the task, float32 [rows, outputs]."""
        raise NotImplementedError


class Classes(Head):
    """The logarithm of each class's probability."""

    tasks = ("classification",)
    of_classes = True

    def __init__(self, kind: SimpleModel, values: Values, truth: Any, weights: Weights, classes: int) -> None:
        counts = np.bincount(truth, minlength=classes)
        most = np.argsort(-counts, kind="stable")[:CLASSES]
        self.known, self.count = np.sort(most[counts[most] > 0]), classes
        rare = int((counts > 0).sum()) - len(self.known)
        self.left_out = (f"the {rare:,} least frequent classes",) if rare else ()
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


class Labels(Head):
    """A logit for each label."""

    tasks = ("multilabel", "anomaly", "ranking")
    of_classes = False

    def __init__(self, kind: SimpleModel, values: Values, truth: Any, weights: Weights, classes: int) -> None:
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


class Numbers(Head):
    """A number for each target, in its units."""

    tasks = ("regression",)
    of_classes = False

    def __init__(self, kind: SimpleModel, values: Values, truth: Any, weights: Weights, classes: int) -> None:
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


def head_of(task: str) -> type[Head] | None:
    """Return the baseline of a task; None where it has none."""
    return next((each for each in subclasses(Head) if task in each.tasks), None)


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
