"""Two models on the very same examples: what the second is ahead by, and whether that is more than noise.

Nothing is predicted again: a report keeps the answers to every example of its splits.
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
from tasks.evaluation.judging import SnapshotSplit, judge
from tasks.evaluation.metrics import Floats, Metric


@dataclass(frozen=True)
class Judged:
    """A report, and the folders of what it was made from."""

    report: Path
    snapshot: Path
    records: Path


@dataclass(frozen=True)
class Change:
    """How a metric differs between two models that met the same examples."""

    difference: Interval
    more_than_noise: bool
    same: bool
    """Whether every single example contributes the same."""


@dataclass(frozen=True)
class Contributions:
    """What each example of a split gives to each metric."""

    metrics: Mapping[str, Metric]
    values: dict[str, Floats]
    """[N, K] by metric; without metrics that need more than the report has kept, and those without an interval."""


def contributions(task: str, split: str, judged: Judged, config: EvaluateConfig) -> Contributions:
    """From the answers that a report has kept, in the order of the records."""
    loss = json.loads((judged.report / "report.json").read_bytes())["loss"]
    found = judge(task, SnapshotSplit(judged.snapshot, judged.records, split), config, loss)
    saved = np.load(judged.report / "predictions" / f"{split}.npy", mmap_mode="r")
    answers: Any = found.answers({found.saved: saved})
    values = {name: metric.contributions(answers) for name, metric in found.metrics.items() if metric.resampled}
    return Contributions(found.metrics, {name: each for name, each in values.items() if np.isfinite(each).all()})


def change(metric: Metric, before: Floats, after: Floats, resamples: int) -> Change:
    """The difference with its 95 % interval from a paired bootstrap.

    It is more than noise where the interval leaves out 0. Where a metric counts examples, a bootstrap of few that
    differ is too sure of itself, so McNemar's exact test of these must agree (Psychometrika 12, 1947).
    """
    found = difference(metric, before, after, resamples)
    apart = len(before) > 1 and not found.low <= 0 <= found.high
    if metric.share:
        apart = apart and mcnemar(before[:, 0], after[:, 0]) < 1 - LEVEL
    return Change(found, apart, bool((before == after).all()))


def mcnemar(before: npt.NDArray, after: npt.NDArray) -> float:
    """How likely so lopsided a change of right and wrong would be by chance; 1 where no example changed."""
    won, lost = int((after > before).sum()), int((after < before).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0
