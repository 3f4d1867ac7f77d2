"""Confidence intervals: bootstrap over the examples (Efron, Annals of Statistics 7, 1979) with a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log1p
from typing import Any

import numpy as np
from scipy import stats

from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.metrics import Floats, Metric, mean

LEVEL = 0.95
ONE_SIDED = 2 * LEVEL - 1
"""Level of the two-sided interval whose ends are one-sided bounds at `LEVEL`."""
SEED = 0
MAX_VALUES = 4_000_000
"""Contributions in a batch of resamples; bounds its memory."""


@dataclass(frozen=True)
class Value:
    """A metric's value without an interval."""

    value: float

    def as_json(self) -> dict[str, float | None]:
        """Return it for `report.json`; `low` and `high` are null."""
        return {"value": self.value, "low": None, "high": None}

    def flat(self, name: str) -> dict[str, float]:
        """Return it under `name`, for metrics by flat name."""
        return {name: self.value}


@dataclass(frozen=True)
class Interval(Value):
    """A metric's value and its 95 % interval."""

    low: float
    high: float

    def as_json(self) -> dict[str, float | None]:
        """Return it for `report.json`."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def flat(self, name: str) -> dict[str, float]:
        """Return it as `<name>`, `<name>/low` and `<name>/high`, for metrics by flat name."""
        return {name: self.value, f"{name}/low": self.low, f"{name}/high": self.high}


def interval(metric: Metric, predictions: Any, resamples: int) -> Interval:
    """Return a metric's 95 % percentile bootstrap interval over the examples.

    Percentiles rather than BCa: they are defined where every example is correct, and the jackknife that BCa needs is
    quadratic in the examples. A share of 0 or 1 has no spread in a bootstrap; it gets the exact binomial interval
    (Clopper and Pearson, Biometrika 26, 1934).
    """
    return interval_of(metric, metric.contributions(predictions), resamples)


def interval_of(metric: Metric, contributions: Floats, resamples: int) -> Interval:
    """Return the same from the contributions of examples, [N, K]."""
    value = float(metric.value(contributions.mean(axis=0)))
    if metric.share and value in (0.0, 1.0):
        exact = stats.binomtest(int(contributions.sum()), len(contributions)).proportion_ci(LEVEL)
        return Interval(value, float(exact.low), float(exact.high))
    low, high = _percentiles(metric.value, contributions, resamples)
    return Interval(value, low, high)


def intervals(
    metrics: Mapping[str, Metric], names: tuple[str, ...], predictions: Any, resamples: int
) -> dict[str, Value]:
    """Return the named metrics by name: an `Interval`, or a `Value` for a metric without one."""
    return {
        name: interval(metric, predictions, resamples)
        if (metric := metrics[name]).resampled
        else Value(metric(predictions))
        for name in names
    }


def flat(prefix: str, measured: Mapping[str, Value]) -> dict[str, float]:
    """Return them by flat name: `<prefix>/accuracy`, `<prefix>/accuracy/low`, `<prefix>/accuracy/high`."""
    return {key: value for name, item in measured.items() for key, value in item.flat(f"{prefix}/{name}").items()}


def over_seeds(values: Sequence[float]) -> Interval:
    """Return the mean of a metric over trainings with other seeds, at least two, and its 95 % t interval.

    The interval (Student, Biometrika 6, 1908) is for the mean over all seeds. It has no room for other examples, for
    which `interval` stands.
    """
    spread = float(np.std(values, ddof=1)) / len(values) ** 0.5
    middle, half = float(np.mean(values)), float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * spread
    return Interval(middle, middle - half, middle + half)


def loss_bounds(losses: Floats, resamples: int) -> tuple[float, float]:
    """Return lower and upper one-sided 95 % bounds of the mean of paired losses [N] (reference minus own, by example).

    Where no example differs, a bootstrap has no spread and its bound would be 0; then the upper bound is the exact
    binomial one for no event among N, 1 - 0.05^(1/N) (Hanley and Lippman-Hand, JAMA 1983).
    """
    if not losses.any():
        return 0.0, float(1 - (1 - LEVEL) ** (1 / len(losses)))
    return _percentiles(mean, losses[:, None], resamples, ONE_SIDED)


def difference_bounds(metric: Metric, before: Floats, after: Floats, sign: int, resamples: int) -> tuple[float, float]:
    """Return lower and upper one-sided 95 % bounds of a metric's loss from contributions `before` to `after`, [N, K].

    `sign` is 1 where higher is better, else -1. Without a difference in any example both are 0.
    """
    if (before == after).all():
        return 0.0, 0.0
    width = before.shape[-1]

    def loss(means: Floats) -> Floats:
        return sign * (metric.value(means[..., :width]) - metric.value(means[..., width:]))

    return _percentiles(loss, np.concatenate([before, after], axis=-1), resamples, ONE_SIDED)


def examples_needed(share: bool, limit: float) -> int:
    """Return the number of examples from which on a model without loss can pass a quality gate with this limit.

    For a metric that counts examples (`share`) by `loss_bounds`: 149 for a limit of 0.02. At least `MIN_EXAMPLES`,
    which is also the answer for a limit of 0, as no number of examples suffices.
    """
    if not share or not 0 < limit < 1:
        return MIN_EXAMPLES
    return max(MIN_EXAMPLES, ceil(log(1 - LEVEL) / log1p(-limit)))


def difference(metric: Metric, before: Floats, after: Floats, resamples: int) -> Interval:
    """Return a metric's change, with its interval, from contributions `before` to `after` of the same examples, [N, K].

    The bootstrap is paired, so that the interval is narrower than those of the two values.
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
    percentiles = stats.bootstrap(
        (np.arange(len(contributions)),),
        lambda rows, axis=-1: value(contributions[rows].mean(axis=-2)),
        n_resamples=resamples,
        batch=max(1, MAX_VALUES // contributions.size),
        vectorized=True,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return float(percentiles.low), float(percentiles.high)
