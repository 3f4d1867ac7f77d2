"""What a task brings to a judgement, and how a model is asked: batch by batch, keeping only what the task needs.

Report, variants and scores know a task by `judge` alone; the rest stands in the file that bears its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tasks.config import EvaluateConfig
from tasks.config.train import LOSSES
from tasks.data import open_snapshot
from tasks.data.reading import RecordsReader
from tasks.errors import Failed
from tasks.evaluation import TASKS, primary
from tasks.evaluation.intervals import difference_bounds, loss_bounds
from tasks.evaluation.metrics import Metric
from tasks.models.forward import Examples, at_once

THREADS = min(8, os.cpu_count() or 1)
"""That look at a batch of outputs, each at some of its rows: NumPy works with one thread by itself."""

Kept = dict[str, npt.NDArray]
"""What is remembered of outputs: small arrays by name, first axis the row."""

Call = Callable[[npt.NDArray], npt.NDArray[np.float32]]
"""A model in any form: a batch of inputs to its outputs."""


class Split:
    """The examples of a split, and the way back to their records."""

    name: str
    features: dict[str, Any]
    arrays: Mapping[str, Any]
    transform: Path

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Keys of the (first) records that rows were made from."""
        raise NotImplementedError

    def documents(self) -> Documents:
        """Of text: which file each target is of."""
        raise NotImplementedError


@dataclass(frozen=True)
class Documents:
    """Files of text behind rows of tokens."""

    of_targets: npt.NDArray[np.int64]
    """[rows, block]: the file that a target is of, -1 past the end."""
    keys: list[str]
    contents: list[bytes]


class SnapshotSplit(Split):
    """A split of a snapshot and of the records that it was made from."""

    def __init__(self, snapshot: Path, records: Path, name: str) -> None:
        self.name, self.transform = name, snapshot / "transform"
        self._reader, self._records = open_snapshot(snapshot), records
        self.features = self._reader.features
        self.arrays = self._reader.arrays(name)

    def keys(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """Keys of the (first) records that rows were made from."""
        return [str(key) for key in self._reader.keys(self.name, rows, self._records)]

    def documents(self) -> Documents:
        """Read from the records, byte for byte."""
        from tasks.data.text import document_of_targets

        reader = RecordsReader(self._records)
        examples = list(reader.iterate(self.name))
        return Documents(
            document_of_targets(self._reader, self.name),
            [bytes(example["key"][0]).decode() for example in examples],
            [bytes(example["text"][0]) for example in examples],
        )


class Judge(Protocol):
    """How a task judges one split."""

    metrics: Mapping[str, Metric]
    """All that the task knows, over its answers."""
    saved: str
    """Which of what is kept becomes `predictions/<split>.npy`; `answers` takes it alone, and tells by NaN what that
    does not hold."""
    inputs: Examples
    """What the model is fed, by row."""
    outputs: int
    """Numbers that it answers to a row."""
    examples: int
    """What is counted and resampled: rows, of text files."""

    @property
    def baselines(self) -> dict[str, float]:
        """What these examples give without a model, by the names of `Task.baselines`."""
        ...

    def keep(self, outputs: npt.NDArray[np.float32], start: int) -> Kept:
        """What is remembered of the outputs for the rows from `start` on."""
        ...

    def answers(self, kept: Kept) -> Any:
        """What the metrics are made of."""
        ...

    def decisions(self, kept: Kept) -> npt.NDArray:
        """What a user would act on; two forms of a model agree where these are equal."""
        ...

    def figures(self, answers: Any) -> dict[str, float]:
        """Further figures without an interval, by the names of `Task.figures` and `<metric>/<what>`."""
        ...

    def details(self, answers: Any) -> dict[str, Any]:
        """What the report says of the split besides metrics."""
        ...

    def slices(self, answers: Any) -> Mapping[str, npt.NDArray[np.bool_]]:
        """Groups of examples that are judged by themselves too, [examples] each, by what they have in common."""
        ...

    def pictures(self, answers: Any, details: dict[str, Any]) -> dict[str, bytes]:
        """PNG by name."""
        ...

    def show(self, call: Call) -> dict[str, Any]:
        """What the model does when let loose: goes into the report's top level."""
        ...


def judge(task: str, split: Split, config: EvaluateConfig, loss: str | None = None) -> Judge:
    """The judge of a task over a split that has examples; `Failed` where it has none.

    `loss` is the one that the model's training minimised; the task's default where it is None.
    """
    if not len(next(iter(split.arrays.values()))):
        rule = "a model is judged on examples"
        raise Failed(f"split {split.name}", "0 examples", rule, "enlarge it in records.splits")
    found: Judge = import_module(f"tasks.evaluation.{task}").Judge(split, config, loss or LOSSES[task][0])
    return found


def quarters(values: npt.NDArray, name: str) -> dict[str, npt.NDArray[np.bool_]]:
    """The examples in four groups by a number of theirs, [N]; `name` is given each group's `low` and `high`."""
    which = np.searchsorted(np.quantile(values, (0.25, 0.5, 0.75)), values)
    groups = [which == number for number in range(4) if (which == number).any()]
    return {name.format(low=values[group].min(), high=values[group].max()): group for group in groups}


@dataclass(frozen=True)
class Asked:
    """What was kept of one or two models' outputs for the same rows, and how far apart they were."""

    kept: list[Kept]
    max_abs_difference: float
    largest: float
    """Absolute value among the first one's outputs."""


def ask(
    found: Judge,
    *calls: Call,
    name: str = "",
    most: int | None = None,
    progress: Callable[[int, int, str], None] = lambda *told: None,
) -> Asked:
    """Put every row, or the first `most`, to each of the calls, in turns: no more than a batch of outputs is held.

    Raises:
        Failed: outputs that are not finite.
    """
    size, rows = at_once(found.outputs), min(len(found.inputs), most or len(found.inputs))
    kept: list[list[Kept]] = [[] for _ in calls]
    apart = largest = 0.0
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, rows, size):
            progress(start, rows, "rows")
            batch = np.ascontiguousarray(found.inputs[start : min(start + size, rows)])
            outputs = [call(batch) for call in calls]
            shares = range(0, len(batch), -(-len(batch) // THREADS))
            parts = [[answers[at : at + shares.step] for answers in outputs] for at in shares]
            for seen in pool.map(partial(_look, found, name), [start + at for at in shares], parts):
                for piece, into in zip(seen.kept, kept, strict=True):
                    into.append(piece)
                largest, apart = max(largest, seen.largest), max(apart, seen.max_abs_difference)
    joined = [{key: np.concatenate([part[key] for part in parts]) for key in parts[0]} for parts in kept]
    return Asked(joined, apart, largest)


def _look(found: Judge, name: str, start: int, outputs: list[npt.NDArray[np.float32]]) -> Asked:
    """What is kept of each model's outputs for the rows from `start` on."""
    extents = [(float(answers.max()), -float(answers.min())) for answers in outputs]
    if not np.isfinite(extents).all():  # extremes keep a NaN, and need no array of their own
        bad = int((~np.isfinite(np.stack(outputs).reshape(len(outputs), len(outputs[0]), -1))).any(axis=(0, 2)).sum())
        raise Failed(
            "model",
            f"outputs of {bad} of {len(outputs[0])} {name} examples are not finite",
            "a model answers with numbers",
            "lower train.learning_rate or set train.clip_norm",
        )
    apart = [float(np.abs(outputs[0] - answers).max()) for answers in outputs[1:]]  # exact where they are close
    return Asked([found.keep(answers, start) for answers in outputs], max(apart, default=0.0), max(extents[0]))


@dataclass(frozen=True)
class Against:
    """A variant's answers held against Keras', example by example."""

    metric: str
    before: float
    loss: float
    lower: float
    """95 % bound."""
    upper: float
    """95 % bound."""
    share: bool
    """Whether the metric counts examples."""
    agreement: float

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("before", "share")}

    @property
    def figures(self) -> dict[str, float]:
        """By flat name: what is lost of the metric, and the bound."""
        return {f"{self.metric}_loss": self.loss, f"{self.metric}_loss/high": self.upper}


def compare(task: str, found: Judge, reference: Kept, own: Kept, resamples: int) -> Against:
    """What the second model loses against the first, by the task's primary metric."""
    name, higher_is_better = primary(task)
    metric, sign = found.metrics[name], 1 if higher_is_better else -1
    before, after = (metric.contributions(found.answers(kept)) for kept in (reference, own))
    if metric.share:
        losses = (before - after).mean(axis=-1) * sign
        loss, (lower, upper) = float(losses.mean()), loss_bounds(losses, resamples)
    else:
        loss = sign * float(metric.value(before.mean(axis=0)) - metric.value(after.mean(axis=0)))
        lower, upper = difference_bounds(metric, before, after, sign, resamples)
    first, second = (found.decisions(kept) for kept in (reference, own))
    return Against(
        metric=name,
        before=float(metric.value(before.mean(axis=0))),
        loss=loss,
        lower=lower,
        upper=upper,
        share=metric.share,
        agreement=float((first == second).mean()),
    )


def limit(task: str, given: float | None, before: float) -> float:
    """How much of the primary metric a compressed model may lose."""
    found = TASKS[task]
    return given if given is not None else found.loses * (before if found.relative else 1)
