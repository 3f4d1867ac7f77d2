"""How sure a number is: bootstrap over the examples (Efron, 1979), seeded, so that the same answers give the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log, log1p
from typing import Any

import numpy as np
from scipy import stats

from tasks.evaluation import FEWEST
from tasks.evaluation.metrics import Floats, Metric, mean

LEVEL = 0.95
ONE_SIDED = 2 * LEVEL - 1
"""Level of the two-sided interval whose ends are the one-sided bounds of `LEVEL`."""
SEED = 0
VALUES_AT_ONCE = 4_000_000
"""Bounds the memory of a batch of resamples."""


@dataclass(frozen=True)
class Value:
    """A metric's value without an interval."""

    value: float

    def as_json(self) -> dict[str, float | None]:
        """For a report: `low` and `high` are null."""
        return {"value": self.value, "low": None, "high": None}

    def flat(self, name: str) -> dict[str, float]:
        """By flat name."""
        return {name: self.value}


@dataclass(frozen=True)
class Interval(Value):
    """A metric's value and its 95 % interval."""

    low: float
    high: float

    def as_json(self) -> dict[str, float | None]:
        """For a report."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def flat(self, name: str) -> dict[str, float]:
        """By flat name, as trackers like it: `<name>`, `<name>/low`, `<name>/high`."""
        return {name: self.value, f"{name}/low": self.low, f"{name}/high": self.high}


def interval(metric: Metric, answers: Any, resamples: int) -> Interval:
    """95 % percentile bootstrap interval of a metric over the examples.

    Percentiles rather than BCa: they also hold still where every example is right, and the jackknife that BCa
    needs is quadratic in the examples. A share whose examples are all alike shows no spread to a bootstrap; it
    gets the exact binomial interval (Clopper and Pearson, Biometrika 26, 1934).
    """
    return interval_of(metric, metric.contributions(answers), resamples)


def interval_of(metric: Metric, contributions: Floats, resamples: int) -> Interval:
    """The same from the contributions of some examples, [N, K]."""
    value = float(metric.value(contributions.mean(axis=0)))
    if metric.share and value in (0.0, 1.0):
        exact = stats.binomtest(int(contributions.sum()), len(contributions)).proportion_ci(LEVEL)
        return Interval(value, float(exact.low), float(exact.high))
    low, high = _percentiles(metric.value, contributions, resamples)
    return Interval(value, low, high)


def intervals(metrics: Mapping[str, Metric], names: tuple[str, ...], answers: Any, resamples: int) -> dict[str, Value]:
    """The named metrics, with intervals where they have one."""
    return {
        name: interval(metric, answers, resamples) if (metric := metrics[name]).resampled else Value(metric(answers))
        for name in names
    }


def flat(prefix: str, measured: Mapping[str, Value]) -> dict[str, float]:
    """All of them by flat name: `<prefix>/accuracy`, `<prefix>/accuracy/low`, `<prefix>/accuracy/high`."""
    return {key: value for name, item in measured.items() for key, value in item.flat(f"{prefix}/{name}").items()}


def loss_bounds(losses: Floats, resamples: int) -> tuple[float, float]:
    """Lower and upper 95 % bound of the mean of paired losses [N] (what an example loses against the reference).

    Where no example differs a bootstrap sees no spread and would promise 0; then the upper one is the exact binomial
    bound for no event among N, 1 - 0.05^(1/N) (Hanley and Lippman-Hand, JAMA 1983), so that few examples prove little.
    """
    if not losses.any():
        return 0.0, float(1 - (1 - LEVEL) ** (1 / len(losses)))
    return _percentiles(mean, losses[:, None], resamples, ONE_SIDED)


def difference_bounds(metric: Metric, before: Floats, after: Floats, sign: int, resamples: int) -> tuple[float, float]:
    """Lower and upper 95 % bound of what a metric loses from contributions `before` to `after`, both [N, K].

    `sign`: 1 where higher is better, else -1. No difference in any example is no loss.
    """
    if (before == after).all():
        return 0.0, 0.0
    width = before.shape[-1]

    def loss(means: Floats) -> Floats:
        return sign * (metric.value(means[..., :width]) - metric.value(means[..., width:]))

    return _percentiles(loss, np.concatenate([before, after], axis=-1), resamples, ONE_SIDED)


def examples_needed(share: bool, limit: float) -> int:
    """Examples from which on a loss of nothing can be shown to be at most `limit`.

    Of a share by `loss_bounds`: 149 for a limit of 0.02. In any case enough for an interval; of a limit of 0, which
    no number of examples can show, no more than that.
    """
    if not share or not 0 < limit < 1:
        return FEWEST
    return max(FEWEST, ceil(log(1 - LEVEL) / log1p(-limit)))


def difference(metric: Metric, before: Floats, after: Floats, resamples: int) -> Interval:
    """What a metric changes by from contributions `before` to `after` of the same examples, [N, K], example by example.

    Both models meet the same hard examples, so that the interval is narrower than those of the two values.
    """
    width = before.shape[-1]

    def change(means: Floats) -> Floats:
        return metric.value(means[..., width:]) - metric.value(means[..., :width])

    both = np.concatenate([before, after], axis=-1)
    return Interval(float(change(both.mean(axis=0))), *_percentiles(change, both, resamples))


def _percentiles(
    value: Callable[[Floats], Floats], contributions: Floats, resamples: int, level: float = LEVEL
) -> tuple[float, float]:
    if len(contributions) < 2:
        only = float(value(contributions.mean(axis=0)))
        return only, only
    found = stats.bootstrap(
        (np.arange(len(contributions)),),
        lambda rows, axis=-1: value(contributions[rows].mean(axis=-2)),
        n_resamples=resamples,
        batch=max(1, VALUES_AT_ONCE // contributions.size),
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(found.low), float(found.high)
