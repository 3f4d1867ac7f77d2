"""Paired comparison of two models on the same examples: the difference of a metric, and whether it is significant.

No model is run: a report holds the predictions for every example of its splits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from tasks.config import EvaluateConfig
from tasks.config.task import LABEL, TARGET
from tasks.data.order import splitmix64
from tasks.data.sources.row_hashes import hashes_of
from tasks.data.split import Hashes
from tasks.evaluation.intervals import LEVEL, Interval, difference
from tasks.evaluation.judging import Judge, examples_of, make_judge
from tasks.evaluation.metrics import Floats, Metric
from tasks.evaluation.splits import SnapshotSplit

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EvaluatedModel:
    """The folders of a report and of the snapshot and records that it was made from."""

    report: Path
    snapshot: Path
    records: Path


@dataclass(frozen=True)
class Change:
    """The difference of a metric between two models on the same examples."""

    difference: Interval
    more_than_noise: bool
    same: bool
    """Whether every example's contribution is equal."""


@dataclass(frozen=True)
class Contributions:
    """Each example's contributions to each metric on a split."""

    metrics: Mapping[str, Metric]
    values: dict[str, Floats]
    """float64 [N, K] by metric; without metrics that need more than the saved predictions or have no interval."""
    identities: Hashes
    """uint64 [N], equal where an example and its truth are; of equal examples of a split each has another one."""
    extents: Floats
    """How much of each is scored, [N]."""
    rows: Callable[[Hashes], Mask]
    """From hashes of rows to which of all examples have one of these rows."""
    places: npt.NDArray[np.int64]
    """int64 [N]: the number of each example in the split."""
    total: int
    """Examples of the split."""

    def __len__(self) -> int:
        return len(self.places)

    def among(self, hashes: Hashes) -> Mask:
        """Return which examples have a row with one of these hashes, bool [N]."""
        return self.rows(hashes)[self.places]

    def at(self, chosen: npt.NDArray[np.int64]) -> Contributions:
        """Return those of some of the examples, by their place here."""
        values = {name: each[chosen] for name, each in self.values.items()}
        return replace(
            self,
            values=values,
            identities=self.identities[chosen],
            extents=self.extents[chosen],
            places=self.places[chosen],
        )


def contributions(task: str, split: str, model: EvaluatedModel, config: EvaluateConfig) -> Contributions:
    """Compute contributions from a report's saved predictions, in stored order."""
    loss = json.loads((model.report / "report.json").read_bytes())["loss"]
    examples = SnapshotSplit(model.snapshot, model.records, split)
    judge = make_judge(task, examples, config, loss)
    saved = np.load(model.report / "predictions" / f"{split}.npy", mmap_mode="r")
    predictions: Any = judge.predictions({judge.saved: saved})
    values = {name: metric.contributions(predictions) for name, metric in judge.metrics.items() if metric.resampled}
    known = {name: each for name, each in values.items() if np.isfinite(each).all()}

    def rows(hashes: Hashes) -> Mask:
        return examples_of(judge, np.isin(examples.hashes(), hashes))

    return Contributions(
        metrics=judge.metrics,
        values=known,
        identities=_identities(judge, examples),
        extents=judge.extents(predictions),
        rows=rows,
        places=np.arange(judge.examples),
        total=judge.examples,
    )


def aligned(one: Contributions, other: Contributions) -> tuple[Contributions, Contributions]:
    """Return both on the examples that both have and that are scored alike, in the order of the other."""
    _, first, second = np.intersect1d(one.identities, other.identities, assume_unique=True, return_indices=True)
    order = np.argsort(second)
    first, second = first[order], second[order]
    alike = one.extents[first] == other.extents[second]
    return one.at(first[alike]), other.at(second[alike])


def _identities(judge: Judge, split: SnapshotSplit) -> Hashes:
    """Return a hash of each example with its truth; equal ones are numbered in their order."""
    rows = split.hashes()
    truths = _truths(split)
    if truths is not None:
        rows = splitmix64(rows ^ splitmix64(hashes_of(truths)))
    if judge.example_of is not None:
        of_examples = np.zeros(judge.examples, np.uint64)
        used = judge.example_of >= 0
        np.add.at(of_examples, judge.example_of[used], rows[used])
        rows = of_examples
    _, which, counts = np.unique(rows, return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    number = np.empty(len(rows), np.uint64)
    number[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.where(number > 0, splitmix64(rows + number), rows)


def _truths(split: SnapshotSplit) -> list[bytes] | None:
    """Return what each row is labelled with: names of classes, or numbers; None of text."""
    if LABEL in split.features:
        names = split.features[LABEL]["classes"]
        labels = split.tags() if split.features[LABEL]["shape"] else split.arrays[LABEL][:, None].tolist()
        return ["\0".join(names[number] for number in row).encode() for row in labels]
    if TARGET in split.features:
        return [row.tobytes() for row in np.asarray(split.arrays[TARGET][:])]
    return None


def change(metric: Metric, before: Floats, after: Floats, resamples: int) -> Change:
    """Return the change of a metric from contributions `before` to `after`, [N, K], with its paired bootstrap interval.

    It is more than noise where the interval excludes 0. Where a metric counts examples and few of them differ, a
    bootstrap interval is too narrow, so McNemar's exact test must agree (Psychometrika 12, 1947).
    """
    interval = difference(metric, before, after, resamples)
    significant = len(before) > 1 and not interval.low <= 0 <= interval.high
    if metric.share:
        significant = significant and mcnemar(before[:, 0], after[:, 0]) < 1 - LEVEL
    return Change(interval, significant, bool((before == after).all()))


def mcnemar(before: npt.NDArray, after: npt.NDArray) -> float:
    """Return the p-value of McNemar's exact test for correctness `before` and `after`, [N]; 1 where none changed."""
    won, lost = int((after > before).sum()), int((after < before).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0
