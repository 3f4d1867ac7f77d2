"""Tests of a limit: whether a metric, or its loss against a reference on the same examples, is shown to be within it.

The hypothesis is that it is not; a small p-value speaks for a pass (non-inferiority). The p-values and the bounds that
are printed are those of the metric's own estimate (see `estimates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np

from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.estimates import Estimate
from tasks.evaluation.intervals import ONE_SIDED
from tasks.evaluation.metrics import Metric
from tasks.evaluation.units import Floats, Units, count

MOST_TIMES = 100
"""A test that needs more than so many times the examples at hand cannot be decided at its limit."""


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
    """Independent units."""
    best: float
    """The p-value that the best possible model would have with as many examples."""
    estimate: Estimate
    counted: str
    where: str = ""
    """The slice, in words."""
    sign: int = 1
    """-1 where value and limit are shown negated, as larger values are better."""

    def more(self, level: float) -> int | None:
        """Return how many examples more a test at a level would need, if the value is what was observed; None where it
        would be more than `MOST_TIMES` those at hand.

        For a pass, or for a fail where the value is beyond the limit, with a power of 0.8.
        """
        if not isfinite(self.value):
            return None
        limit = self.limit if self.estimate.value == self.value else -self.limit
        needed = self.estimate.needed(limit, level) / max(self.estimate.units, 1) * self.examples
        if needed > MOST_TIMES * self.examples:
            return None
        return max(ceil(needed), MIN_EXAMPLES, self.examples + 1) - self.examples


def loss(
    gate: str,
    metric: Metric,
    before: Floats,
    after: Floats,
    sign: int,
    limit: float,
    units: Units | None = None,
    counted: str = "examples",
    where: str = "",
) -> Test:
    """Test whether a metric loses at most `limit` from contributions `before` to `after` of the same examples, [N, K].

    `sign` is 1 where higher is better, else -1.
    """
    change = metric.paired(before, after, units)
    low, high = change.ends(ONE_SIDED)
    lower, upper = (-high, -low) if sign > 0 else (low, high)
    p_value = change.p_at_most(-limit) if sign > 0 else change.p_at_least(limit)
    examples, best = count(units, len(before)), _best(metric, limit, change.units * metric.parts(before, units))
    if not _exact(metric, units) and change.units < MIN_EXAMPLES:
        p_value = best = 1.0
    lost = -sign * change.value + 0.0
    return Test(gate, "loses", lost, lower, upper, limit, p_value, examples, best, change, counted, where)


def at_most(
    gate: str,
    metric: Metric,
    values: Floats,
    sign: int,
    limit: float,
    units: Units | None = None,
    counted: str = "examples",
) -> Test:
    """Test whether a metric, times `sign`, is at most `limit` times `sign`; -1 asks for at least `limit`.

    `values` are the contributions of the examples, [N, K].
    """
    found = metric.estimate(values, units)
    low, high = found.ends(ONE_SIDED)
    lower, upper = (low, high) if sign > 0 else (-high, -low)
    p_value = found.p_at_least(limit) if sign > 0 else found.p_at_most(limit)
    room = limit - metric.least if sign > 0 else metric.most - limit
    best = _best(metric, room, found.units * metric.parts(values, units))
    if not _exact(metric, units) and found.units < MIN_EXAMPLES:
        p_value = best = 1.0
    ends = (sign * found.value, lower, upper, sign * limit)
    return Test(gate, "has", *ends, p_value, count(units, len(values)), best, found, counted, sign=sign)


def _exact(metric: Metric, units: Units | None) -> bool:
    """Return whether a test holds for any number of examples."""
    return metric.share and units is None


def _best(metric: Metric, room: float, units: int) -> float:
    """Return the p-value where no unit is wrong, and the limit is `room` from the best value; 0 without bounds."""
    width = metric.most - metric.least
    return float(np.clip(1 - room / width, 0.0, 1.0) ** units) if isfinite(width) else 0.0
