"""Paired comparison of two models on the same examples: the difference of a metric, and whether it is significant.

No model is run: a report holds the predictions for every example of its splits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from tasks.config import EvaluateConfig
from tasks.evaluation.intervals import LEVEL, Interval, difference
from tasks.evaluation.judging import SnapshotSplit, make_judge
from tasks.evaluation.metrics import Floats, Metric


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


def contributions(task: str, split: str, model: EvaluatedModel, config: EvaluateConfig) -> Contributions:
    """Compute contributions from a report's saved predictions, in stored order."""
    loss = json.loads((model.report / "report.json").read_bytes())["loss"]
    judge = make_judge(task, SnapshotSplit(model.snapshot, model.records, split), config, loss)
    saved = np.load(model.report / "predictions" / f"{split}.npy", mmap_mode="r")
    predictions: Any = judge.predictions({judge.saved: saved})
    values = {name: metric.contributions(predictions) for name, metric in judge.metrics.items() if metric.resampled}
    return Contributions(judge.metrics, {name: each for name, each in values.items() if np.isfinite(each).all()})


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
