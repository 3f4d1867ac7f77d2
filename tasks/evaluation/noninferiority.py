"""Tests of a limit: whether a metric, or its loss against a reference on the same examples, is shown to be within it.

The hypothesis is that it is not; a small p-value speaks for a pass (non-inferiority). p-values are those of the
bootstrap. Of shares, where few examples differ and a bootstrap is too sure, Tango's score test must agree (Statistics
in Medicine 17, 1998), which at a limit of 0 is McNemar's; where none differs, the exact binomial test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, isfinite, log, log1p, sqrt

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri

from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.intervals import LEVEL, bounds, spread
from tasks.evaluation.metrics import Floats, Metric, mean

POWER = 0.8
"""Probability with which so many examples as are asked for would give a pass, if the value is what was observed."""


@dataclass(frozen=True)
class Test:
    """What a gate found about a metric; with those of the other gates of a stage it becomes a verdict."""

    gate: str
    what: str
    """A verb for the value: `loses`, `has`."""
    value: float
    """What must be at most `limit`."""
    lower: float
    upper: float
    """One-sided 95 % bounds."""
    limit: float
    p_value: float
    examples: int
    best: float
    """The p-value that the best possible model would have with as many examples."""
    deviation: float
    """Standard deviation of an example's influence; 0 where no example differs."""
    share: bool
    counted: str
    where: str = ""
    """The slice, in words."""
    sign: int = 1
    """-1 where value and limit are shown negated, as larger values are better."""

    def more(self, level: float) -> int | None:
        """Return how many examples more a test at a level would need, if the value is what was observed; None where no
        number would do.

        For a pass, or for a fail where the value is beyond the limit, with a power of 0.8: n = ((z_level + z_power) s /
        (limit - value))^2 (Julious, Statistics in Medicine 23, 2004, section 5).
        """
        if not isfinite(self.value) or self.value == self.limit:
            return None
        if self.share and not self.deviation and 0 < self.limit < 1:
            needed = ceil(log(level) / log1p(-self.limit))
        else:
            reach = -ndtri(level) + ndtri(POWER)
            needed = ceil((reach * self.deviation / (self.limit - self.value)) ** 2)
        return max(needed, MIN_EXAMPLES, self.examples + 1) - self.examples


def loss(
    gate: str,
    metric: Metric,
    before: Floats,
    after: Floats,
    sign: int,
    limit: float,
    resamples: int,
    counted: str = "examples",
    where: str = "",
) -> Test:
    """Test whether a metric loses at most `limit` from contributions `before` to `after` of the same examples, [N, K].

    `sign` is 1 where higher is better, else -1.
    """
    count, width = len(before), before.shape[-1]

    def lost(means: Floats) -> Floats:
        return sign * (metric.value(means[..., :width]) - metric.value(means[..., width:]))

    both = np.concatenate([before, after], axis=-1)
    if metric.share:  # the same, without an error of rounding where as many are lost as won
        both, lost = sign * (before - after), mean
    enough = count >= MIN_EXAMPLES
    best = p_without_loss(count, limit) if metric.share else 0.0 if enough else 1.0
    same = Test(gate, "loses", 0.0, 0.0, 0.0, limit, best, count, best, 0.0, metric.share, counted, where)
    if (before == after).all():
        return replace(same, upper=1 - (1 - LEVEL) ** (1 / count)) if metric.share else same
    found = bounds(lost, both, limit, resamples)  # also where the metric by itself has percentiles: see decisions.md
    p_value = found.p_value if enough else 1.0
    if metric.share:
        p_value = max(found.p_value, tango(int((both > 0).sum()), int((both < 0).sum()), count, limit))
    value, deviation = float(lost(both.mean(axis=0))), spread(lost, both)
    return replace(same, value=value, lower=found.lower, upper=found.upper, p_value=p_value, deviation=deviation)


def at_most(
    gate: str, metric: Metric, values: Floats, sign: int, limit: float, resamples: int, counted: str = "examples"
) -> Test:
    """Test whether a metric, times `sign`, is at most `limit` times `sign`; -1 asks for at least `limit`.

    `values` are the contributions of the examples, [N, K]. Shares get the exact binomial test (Clopper and Pearson,
    Biometrika 26, 1934).
    """
    count = len(values)

    def value(means: Floats) -> Floats:
        return sign * metric.value(means)

    observed, deviation = float(value(values.mean(axis=0))), spread(value, values)
    if not metric.share:
        found = bounds(value, values, sign * limit, resamples, corrected=metric.corrected)
        best = 0.0 if count >= MIN_EXAMPLES else 1.0
        ends, p_value = (found.lower, found.upper), max(found.p_value, best)
    else:
        right, chance = round(float(values.sum())), min(max(limit, 0.0), 1.0)
        lower, upper = (stats.binomtest(right, count, chance, each) for each in ("greater", "less"))
        low, high = float(lower.proportion_ci(LEVEL).low), float(upper.proportion_ci(LEVEL).high)
        ends = (low, high) if sign > 0 else (-high, -low)
        p_value = float((upper if sign > 0 else lower).pvalue)
        best = (1 - chance) ** count if sign > 0 else chance**count
    return Test(gate, "has", observed, *ends, sign * limit, p_value, count, best, deviation, False, counted, sign=sign)


def p_without_loss(count: int, limit: float) -> float:
    """Return the p-value of the exact binomial test where none of `count` examples is lost."""
    return 1.0 if limit <= 0 else 0.0 if limit >= 1 else (1 - limit) ** count


def tango(lost: int, won: int, count: int, limit: float) -> float:
    """Return the p-value of Tango's score test that the share of examples lost, less that won, is at least `limit`."""
    if limit >= 1:
        return 0.0
    a, c = 2.0 * count, -won * limit * (1 - limit)
    b = -lost - won + (2 * count - lost + won) * limit
    rest = (sqrt(b * b - 4 * a * c) - b) / (2 * a)
    variance = count * (2 * rest + limit - limit**2)
    return float(ndtr((lost - won - count * limit) / sqrt(variance))) if variance > 0 else 1.0
