"""Several tests at once, and tests of non-inferiority.

Westfall and Young, Resampling-Based Multiple Testing (1993): the largest statistic of all tests is drawn again and
again where nothing differs, so that what the tests share counts, as overlapping slices do. Where examples are
independent, their values are permuted (exact where values do not depend on the slices). Where several examples are of
one unit, so are the values within each unit, and what the units have in common between the units.

The hypothesis is that it is not; a small p-value speaks for a pass (non-inferiority). The p-values and the bounds that
are printed are those of the metric's own estimate (see `estimates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.estimates import Estimate
from tasks.evaluation.gates import FAIL, PASS, UNDECIDED, Verdict
from tasks.evaluation.intervals import ONE_SIDED
from tasks.evaluation.measured import LEVEL
from tasks.evaluation.metrics import Metric
from tasks.evaluation.units import Floats, Units, count

SEED = 0

MAX_VALUES = 4_000_000
"""Values that are drawn at once, of examples or of statistics; bounds the memory."""

ROUNDING = 1e-9
"""Statistics and errors that differ by less than this share are equal: their sums were in another order."""

PERMUTED = "step-down permutation test of the maximum"
OVER_UNITS = f"{PERMUTED}, within units and between them"
"""Methods of the p-values, by their names in the report."""


@dataclass(frozen=True)
class Tested:
    """Tests of differences between the examples inside and outside of each of M slices."""

    statistics: Floats
    """Differences by their standard errors, float64 [M]; 0 where nothing varies."""
    errors: Floats
    """Standard errors of the differences, float64 [M], in units of the values."""
    p_values: Floats
    """Adjusted for all M by the step-down method, float64 [M]; at least 1 / (resamples + 1)."""
    critical: float
    """The `LEVEL` quantile of the largest statistic where nothing differs."""


def holm(p_values: Floats) -> Floats:
    """Return p-values adjusted by Holm's method (Scandinavian Journal of Statistics 6, 1979), float64 [M].

    It holds for tests of any dependence.
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def permuted_over_units(
    members: sparse.csr_matrix,
    values: Floats,
    units: npt.NDArray[np.int64],
    two_sided: npt.NDArray[np.bool_],
    resamples: int,
) -> Tested:
    """Test the differences of all slices together where several examples are of one unit.

    What an example differs by from the mean of its unit is permuted within the unit, and the sums of the units are
    permuted between them: exact where examples of a unit are exchangeable, and units are, whether slices divide units
    or not. The standard error of a difference is that of its scores by unit (Cameron, Gelbach and Miller, Review of
    Economics and Statistics 90, 2008), of each draw its own.

    Args:
        members: 1 where an example is in a slice, float64 [M, N]; sparse; of at least 1 of N examples, and not of all.
        values: float64 [N].
        units: the number of the unit of each example, int64 [N].
        two_sided: whether the slice may differ in either direction, bool [M]; others may be higher alone.
        resamples: how often values are permuted.
    """
    by_unit = np.argsort(units, kind="stable")
    inside, centred = members[:, by_unit].sorted_indices(), values[by_unit] - values.mean()
    _, starts, unit, sizes = np.unique(units[by_unit], return_index=True, return_inverse=True, return_counts=True)
    sums = np.add.reduceat(centred, starts)
    within = centred - (sums / sizes)[unit]
    counts = np.diff(inside.indptr)
    shares = counts / len(values)
    slice_of, unit_of = np.repeat(np.arange(len(counts)), counts), unit[inside.indices]
    first = np.flatnonzero(np.diff(slice_of * len(starts) + unit_of, prepend=-1))
    """Where the examples of the next unit in a slice begin, among all that are in slices."""
    unit_of, begin = unit_of[first], np.flatnonzero(np.diff(slice_of[first], prepend=-1))

    def differences(drawn: Floats) -> tuple[Floats, Floats]:
        """Return sums of the units' scores and their standard errors, float64 [M], of centred values [N]."""
        whole, own = np.add.reduceat(drawn, starts), np.add.reduceat(drawn[inside.indices], first)
        of_own, of_whole = np.add.reduceat(own**2, begin), shares**2 * (whole**2).sum()
        squares = of_own - 2 * shares * np.add.reduceat(own * whole[unit_of], begin) + of_whole
        squares = np.where(squares > ROUNDING * (of_own + of_whole), squares, 0.0)
        return np.add.reduceat(own, begin) - shares * whole.sum(), np.sqrt(squares)

    random = np.random.default_rng(SEED)

    def drawn() -> Floats:
        moved = within[np.argsort(unit + random.random(len(unit)))] + (random.permutation(sums) / sizes)[unit]
        return _by(*differences(moved))

    blocks = _blocks(resamples, max(len(values), len(counts)))
    draws = (np.stack([drawn() for _ in range(count)], axis=1) for count in blocks)
    difference, error = differences(centred)
    return _stepped_down(_by(difference, error), error / (counts * (1 - shares)), two_sided, draws)


def permuted(
    members: sparse.csr_matrix, values: Floats, two_sided: npt.NDArray[np.bool_], share: bool, resamples: int
) -> Tested:
    """Test the differences of all slices together by permuting the values of independent examples.

    The statistic of values 0 or 1 has the variance of all of them, that of others the variances inside and outside
    (Welch, Biometrika 34, 1947), so that slices whose values only vary more do not count (Janssen, Statistics and
    Probability Letters 36, 1997), and few large values hide no slice. Where neither varies it is that of all.

    Args:
        members: 1 where an example is in a slice, float64 [M, N]; sparse; of at least 2 of N examples, and not of the
            last 2.
        values: float64 [N].
        two_sided: whether the slice may differ in either direction, bool [M]; others may be higher alone.
        share: whether values are 0 or 1.
        resamples: how often values are permuted.
    """
    total, centred = len(values), values - values.mean()
    inside = np.asarray(members.sum(axis=1)).ravel()[:, None]
    outside, square = total - inside, float((centred**2).sum())

    def differences(drawn: Floats) -> tuple[Floats, Floats]:
        """Return differences and their standard errors, float64 [M, B], of centred values [N, B]."""
        sums = members @ drawn
        difference, of_all = sums / inside + sums / outside, square / (total - 1) * (1 / inside + 1 / outside)
        if share:
            return difference, np.sqrt(of_all)
        squares = members @ drawn**2
        inner = (squares - sums**2 / inside) / (inside - 1) / inside
        outer = (square - squares - sums**2 / outside) / (outside - 1) / outside
        return difference, np.sqrt(np.where(inner + outer > ROUNDING * of_all, inner + outer, of_all))

    random = np.random.default_rng(SEED)
    draws = (
        _by(*differences(random.permuted(np.tile(centred, (count, 1)), axis=1).T.copy()))
        for count in _blocks(resamples, max(total, len(inside)))
    )
    difference, error = differences(centred[:, None])
    return _stepped_down(_by(difference, error)[:, 0], np.broadcast_to(error, difference.shape)[:, 0], two_sided, draws)


def _by(differences: Floats, errors: Floats) -> Floats:
    """Return differences by their standard errors, 0 where nothing varies."""
    errors = np.broadcast_to(errors, differences.shape)
    return np.divide(differences, errors, out=np.zeros_like(differences), where=errors > 0)


def _blocks(resamples: int, values: int) -> Iterator[int]:
    """Yield how many of the draws are made at once, of so many values each."""
    size = max(1, MAX_VALUES // values)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def _stepped_down(
    statistics: Floats, errors: Floats, two_sided: npt.NDArray[np.bool_], draws: Iterator[Floats]
) -> Tested:
    """Return p-values from statistics [M] and from draws [M, B] of them where nothing differs.

    That of a slice is the share of draws whose largest statistic, among slices with no larger one than its own, is as
    large (Westfall and Young, 1993, algorithm 2.8, of statistics).
    """
    seen = np.where(two_sided, np.abs(statistics), statistics)
    order = np.argsort(-seen, kind="stable")
    least = seen[order] - ROUNDING * np.abs(seen[order])
    reached, largest = np.zeros(len(seen)), list[Floats]()
    for drawn in draws:
        sides = np.where(two_sided[:, None], np.abs(drawn), drawn)[order]
        ahead = np.maximum.accumulate(sides[::-1], axis=0)[::-1]
        reached += (ahead >= least[:, None]).sum(axis=1)
        largest.append(ahead[0])
    everything = np.concatenate(largest)
    adjusted = np.empty_like(seen)
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + len(everything)))
    return Tested(statistics, errors, adjusted, float(np.quantile(everything, LEVEL)))


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


ERROR = 1 - LEVEL
"""Probability that a stage passes a metric that is at its limit (of all its gates together)."""


def decide(found: Sequence[Sequence[Verdict | Test]]) -> list[list[Verdict]]:
    """Return the verdicts on what the gates of a stage found, by subject.

    The p-values of all tests are adjusted together by Holm's method (Scandinavian Journal of Statistics 6, 1979): the
    probability of a wrong pass anywhere is 5 %. A test fails where its lower 95 % bound is beyond the limit.
    """
    tests = [each for row in found for each in row if not isinstance(each, Verdict)]
    adjusted = iter(holm(np.array([test.p_value for test in tests])).tolist())
    return [
        [each if isinstance(each, Verdict) else _tested(each, next(adjusted), len(tests)) for each in row]
        for row in found
    ]


def _tested(test: Test, p_value: float, count: int) -> Verdict:
    first, second = (test.sign * value for value in (test.value, test.upper))
    edge, limit = ("least" if test.sign < 0 else "most"), test.sign * test.limit
    where = f"{test.where}: " if test.where else ""
    chance = f", p = {p_value:.3g} by Holm's method for {count} tests" if count > 1 else ""
    seen = f"{where}{test.what} at {edge} {second:.4f} with 95 % confidence"
    if not isfinite(test.value):
        return Verdict(test.gate, test.value, limit, FAIL, f"{where}{test.what} {test.value}", 1.0)
    if p_value <= ERROR:
        return Verdict(test.gate, second, limit, PASS, f"{seen}; within the limit {limit:g}{chance}", p_value)
    if test.lower > test.limit:
        other = "most" if test.sign < 0 else "least"
        text = f"{where}{test.what} at {other} {test.sign * test.lower:.4f} with 95 % confidence; beyond the limit"
        text += f" {limit:g}"
        return Verdict(test.gate, test.sign * test.lower, limit, FAIL, text, p_value)
    more = test.more(ERROR / count)
    would = "it cannot be decided at this limit" if more is None else f"about {more:,} more would decide"
    text = f"{where}{test.what} {first:.4f} of {test.examples:,} test {test.counted}, at {edge} "
    text += f"{second:.4f} with 95 % confidence; the limit is {limit:g}{chance}; {would}"
    return Verdict(test.gate, second, limit, UNDECIDED, text, p_value, more, few=test.best > ERROR / count)
