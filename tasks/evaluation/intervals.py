"""Confidence intervals: bootstrap over the examples (Efron, Annals of Statistics 7, 1979) with a fixed seed.

The ends are those of the BCa method (bias-corrected and accelerated: Efron, JASA 82, 1987). It corrects the percentiles
for the bias of the resamples and for a spread that changes with the value, as that of shares near 0 or 1 and of skewed
losses does. It needs the metric without each example; as metrics are functions of means of contributions, that is one
subtraction for each example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from tasks.evaluation.metrics import Floats, Metric, mean

LEVEL = 0.95
ONE_SIDED = 2 * LEVEL - 1
"""Level of the two-sided interval whose ends are one-sided bounds at `LEVEL`."""
SEED = 0
MAX_VALUES = 4_000_000
"""Contributions in a batch of resamples; bounds its memory."""

BCA, PERCENTILE, BINOMIAL = "BCa bootstrap", "percentile bootstrap", "exact binomial"
STUDENT, ALONE = "Student's t", "one example"
"""Methods of an interval; with one example there is none, and both ends are the value."""

ROUNDING = 1e-12
"""Differences between values without one example that are smaller than this share of them are errors of rounding."""


@dataclass(frozen=True)
class Value:
    """A metric's value without an interval."""

    value: float

    def as_json(self) -> dict[str, Any]:
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
    method: str = BCA

    def as_json(self) -> dict[str, Any]:
        """Return it for `report.json`."""
        return {**self.ends, "method": self.method}

    @property
    def ends(self) -> dict[str, float]:
        """The value and both ends by name."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def flat(self, name: str) -> dict[str, float]:
        """Return it as `<name>`, `<name>/low` and `<name>/high`, for metrics by flat name."""
        return {name: self.value, f"{name}/low": self.low, f"{name}/high": self.high}


def interval(metric: Metric, predictions: Any, resamples: int) -> Interval:
    """Return a metric's 95 % bootstrap interval over the examples, by BCa unless `corrected` is false.

    A share of 0 or 1 has no spread in a bootstrap; it gets the exact binomial interval (Clopper and Pearson, Biometrika
    26, 1934). Where BCa is undefined, as all examples are equal, the percentiles are returned; `method` has the name.
    """
    return interval_of(metric, metric.contributions(predictions), resamples)


def interval_of(metric: Metric, contributions: Floats, resamples: int) -> Interval:
    """Return the same from the contributions of examples, [N, K]."""
    value = float(metric.value(contributions.mean(axis=0)))
    if metric.share and value in (0.0, 1.0):
        exact = stats.binomtest(int(contributions.sum()), len(contributions)).proportion_ci(LEVEL)
        return Interval(value, float(exact.low), float(exact.high), BINOMIAL)
    return Interval(value, *_ends(metric.value, contributions, resamples, corrected=metric.corrected))


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
    return Interval(middle, middle - half, middle + half, STUDENT)


def loss_bounds(losses: Floats, resamples: int) -> tuple[float, float]:
    """Return lower and upper one-sided 95 % bounds of the mean of paired losses [N] (reference minus own, by example).

    Where no example differs, a bootstrap has no spread and its bound would be 0; then the upper bound is the exact
    binomial one for no event among N, 1 - 0.05^(1/N) (Hanley and Lippman-Hand, JAMA 1983).
    """
    if not losses.any():
        return 0.0, float(1 - (1 - LEVEL) ** (1 / len(losses)))
    lower, upper, _ = _ends(mean, losses[:, None], resamples, ONE_SIDED)
    return lower, upper


def difference_bounds(metric: Metric, before: Floats, after: Floats, sign: int, resamples: int) -> tuple[float, float]:
    """Return lower and upper one-sided 95 % bounds of a metric's loss from contributions `before` to `after`, [N, K].

    `sign` is 1 where higher is better, else -1. Without a difference in any example both are 0.
    """
    if (before == after).all():
        return 0.0, 0.0
    width = before.shape[-1]

    def loss(means: Floats) -> Floats:
        return sign * (metric.value(means[..., :width]) - metric.value(means[..., width:]))

    lower, upper, _ = _ends(loss, np.concatenate([before, after], axis=-1), resamples, ONE_SIDED)
    return lower, upper


@dataclass(frozen=True)
class Bounds:
    """One-sided 95 % bounds of a value, and the evidence that it is below a limit."""

    lower: float
    upper: float
    p_value: float
    """Of the hypothesis that the value is not below the limit."""


def bounds(
    value: Callable[[Floats], Floats], contributions: Floats, limit: float, resamples: int, *, corrected: bool = True
) -> Bounds:
    """Return one-sided bounds of a function of means, and the p-value of its being at least `limit`.

    The p-value is the level of the bootstrap bound that is equal to the limit (Hall, The Bootstrap and Edgeworth
    Expansion, 1992, 3.12); the smallest one is 1 / (resamples + 1).
    """
    if len(contributions) < 2:
        only = float(value(contributions.mean(axis=0)))
        return Bounds(only, only, 1.0)
    distribution = resampled(value, contributions, resamples)
    tails = np.array([1 - LEVEL, LEVEL])
    shape = _shape(value, contributions, distribution) if corrected else None
    shifted = None if shape is None else _shifted(*shape, tails)
    if shape is None or shifted is None:
        shape, shifted = (0.0, 0.0), tails
    bias, acceleration = shape
    lower, upper = np.quantile(distribution, shifted)
    below = ((distribution < limit).sum() + 0.5 * (distribution == limit).sum() + 0.5) / (resamples + 1)
    from_middle = ndtri(below) - bias
    p_value = float(ndtr(bias - from_middle / (1 + acceleration * from_middle)))
    return Bounds(float(lower), float(upper), max(p_value, 1 / (resamples + 1)))


def spread(value: Callable[[Floats], Floats], contributions: Floats) -> float:
    """Return the standard deviation of an example's influence on a function of means (jackknife: Efron and Stein,
    Annals of Statistics 9, 1981), so that the standard error is that by the root of the number of examples."""
    count = len(contributions)
    without = value((contributions.sum(axis=0) - contributions) / max(count - 1, 1))
    return float(np.std(without * (count - 1), ddof=1)) if count > 1 else 0.0


def difference(metric: Metric, before: Floats, after: Floats, resamples: int) -> Interval:
    """Return a metric's change, with its interval, from contributions `before` to `after` of the same examples, [N, K].

    The bootstrap is paired, so that the interval is narrower than those of the two values.
    """
    width = before.shape[-1]

    def change(means: Floats) -> Floats:
        return metric.value(means[..., width:]) - metric.value(means[..., :width])

    both = np.concatenate([before, after], axis=-1)
    return Interval(float(change(both.mean(axis=0))), *_ends(change, both, resamples))


def resampled(value: Callable[[Floats], Floats], contributions: Floats, resamples: int) -> Floats:
    """Return the values of bootstrap resamples of the examples, float64 [resamples]."""
    distribution: Floats = stats.bootstrap(
        (np.arange(len(contributions)),),
        lambda rows, axis=-1: value(contributions[rows].mean(axis=-2)),
        n_resamples=resamples,
        batch=max(1, MAX_VALUES // contributions.size),
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).bootstrap_distribution
    return distribution


def _ends(
    value: Callable[[Floats], Floats],
    contributions: Floats,
    resamples: int,
    level: float = LEVEL,
    *,
    corrected: bool = True,
) -> tuple[float, float, str]:
    """Return both ends of an interval and the method: BCa, or percentiles where it is undefined or not wanted."""
    if len(contributions) < 2:
        only = float(value(contributions.mean(axis=0)))
        return only, only, ALONE
    distribution = resampled(value, contributions, resamples)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    shape = _shape(value, contributions, distribution) if corrected else None
    shifted = None if shape is None else _shifted(*shape, tails)
    low, high = np.quantile(distribution, tails if shifted is None else shifted)
    return float(low), float(high), PERCENTILE if shifted is None else BCA


def _shape(
    value: Callable[[Floats], Floats], contributions: Floats, distribution: Floats
) -> tuple[float, float] | None:
    """Return BCa's bias and acceleration; None where they are undefined."""
    whole = value(contributions.mean(axis=0))
    without = value((contributions.sum(axis=0) - contributions) / (len(contributions) - 1))
    influence = without.mean() - without
    if np.abs(influence).max() <= ROUNDING * np.abs(without).max():
        return None
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    bias = ndtri(((distribution < whole).mean() + (distribution <= whole).mean()) / 2)
    return (float(bias), float(acceleration)) if np.isfinite(bias) else None


def _shifted(bias: float, acceleration: float, tails: Floats) -> Floats | None:
    """Return the quantiles of the distribution that BCa takes for those of `tails`; None where they are undefined."""
    normal = bias + ndtri(tails)
    shifted: Floats = ndtr(bias + normal / (1 - acceleration * normal))
    return shifted if np.isfinite(shifted).all() and shifted[0] < shifted[1] else None
