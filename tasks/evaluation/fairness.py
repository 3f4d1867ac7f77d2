"""Differences between groups of examples: how often they are selected, and how often decisions about them are wrong.

Each group is compared with all other examples. Selection rate, true and false positive rate are those of demographic
parity and equalised odds (Hardt, Price and Srebro, arXiv 1610.02413). Many comparisons find differences by chance, so
p-values are adjusted over all groups and measures: those of rates of independent examples are exact (Fisher) and
adjusted by Holm's method, others are those of the largest difference (`tasks.evaluation.multiple_testing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from tasks.evaluation import MIN_EXAMPLES, multiple_testing
from tasks.evaluation.binary import Binary
from tasks.evaluation.columns import Masks
from tasks.evaluation.estimates import BINOMIAL
from tasks.evaluation.intervals import STUDENT, interval_of
from tasks.evaluation.measured import LEVEL, Interval
from tasks.evaluation.metrics import Metric
from tasks.evaluation.multiple_testing import OVER_UNITS, PERMUTED, holm
from tasks.evaluation.units import Floats, Units
from tasks.evaluation.worst_slices import damage

FISHER = "Fisher's exact test and Holm's method"
"""Method of the p-values of rates of independent examples, by its name in the report."""

EFFECTIVE, NEWCOMBE = "exact binomial, of the effective number", "Newcombe's hybrid score"
"""Methods of intervals: of a rate of examples of units, and of a difference of two rates."""


@dataclass(frozen=True)
class Rate:
    """A rate that is compared: the share of the examples `among` for which `holds`, both bool [N]."""

    holds: npt.NDArray[np.bool_]
    among: npt.NDArray[np.bool_]


def rates_of(decision: Binary, threshold: float) -> dict[str, Rate]:
    """Return selection rate, true and false positive rate and accuracy of a yes-or-no decision."""
    yes, truth = decision.probabilities > threshold, decision.truth
    everyone = np.ones(len(truth), np.bool_)
    return {
        "selection_rate": Rate(yes, everyone),
        "true_positive_rate": Rate(yes, truth),
        "false_positive_rate": Rate(yes, ~truth),
        "accuracy": Rate(yes == truth, everyone),
    }


def compare(
    column: str,
    groups: Masks,
    rates: Mapping[str, Rate],
    values: Mapping[str, tuple[Metric, Floats]],
    resamples: int,
    units: Units | None = None,
) -> dict[str, Any]:
    """Return the measures of each group beside those of all others, for the report.

    A row is of `few` where fewer than `MIN_EXAMPLES` independent examples decide, of the group or of the others.

    Args:
        groups: the examples of each group, bool [N] by name.
        rates: shares of examples, by name.
        values: other metrics by name, with the contributions of the examples, [N, K].
        resamples: how often chance is drawn, and bootstrap resamples.
        units: the number of the independent unit of each example, int64 [N]; None where each is one.
    """
    large = {name: group for name, group in groups.items() if group.sum() >= MIN_EXAMPLES and not group.all()}
    rows: list[dict[str, Any]] = []
    for name, group in large.items():
        of_each = np.arange(len(group)) if units is None else units
        of_group = {"group": name, "examples": int(group.sum())}
        for measure, rate in rates.items():
            rows.append(of_group | {"measure": measure} | _of_rate(rate, group, of_each))
        for measure, value in values.items():
            rows.append(of_group | {"measure": measure} | _of_metric(*value, group, of_each))
    p_values = _tested(large, rates, values, resamples, units)
    for row in rows:
        p_value = p_values.get((row["group"], row["measure"]))
        row |= {"p_value": p_value} | ({} if p_value is None else {"beyond_chance": p_value < 1 - LEVEL})
    independent = FISHER if rates else PERMUTED
    return {
        "column": column,
        "correction": independent if units is None else OVER_UNITS,
        "compared": len(p_values),
        "least_examples": MIN_EXAMPLES,
        "too_small": {name: int(group.sum()) for name, group in groups.items() if name not in large},
        "largest_differences": {measure: _largest(rows, measure) for measure in (*rates, *values)},
        "rows": rows,
    }


def _largest(rows: list[dict[str, Any]], measure: str) -> float | None:
    """Return the difference between the groups with the highest and with the lowest value."""
    values = [row["value"] for row in rows if row["measure"] == measure and row["value"] is not None]
    return max(values) - min(values) if values else None


def _of_rate(rate: Rate, group: npt.NDArray[np.bool_], units: Units) -> dict[str, Any]:
    """Return a rate of a group with its interval, that of the others, and the difference, for the report."""
    parts = [rate.among & group, rate.among & ~group]
    if not all(part.any() for part in parts):
        return {"value": None, "rest": None, "difference": None}
    own, rest = (float(rate.holds[part].mean()) for part in parts)
    counts = [_effective(rate.holds[part], units[part]) for part in parts]
    low, high = exact(own, counts[0])
    exactly = counts[0] == parts[0].sum()
    return {
        "value": own,
        "low": low,
        "high": high,
        "method": BINOMIAL if exactly else EFFECTIVE,
        "rest": rest,
        "difference": newcombe((own, rest), (counts[0], counts[1])).as_json(),
        "few": _few(parts, units),
    }


def _few(parts: Sequence[npt.NDArray[np.bool_]], units: Units) -> bool:
    return any(len(np.unique(units[part])) < MIN_EXAMPLES for part in parts)


def _effective(holds: npt.NDArray[np.bool_], units: Units) -> float:
    """Return the number of independent examples whose share varies as much as that of these examples of units.

    Korn and Graubard (Survey Methodology 24, 1998), with their correction for few units; at most the examples. Of a
    share of 0 or 1, where nothing tells what units share, it is the units.
    """
    _, number = np.unique(units, return_inverse=True)
    count, of_units, share = len(holds), int(number.max()) + 1, holds.mean()
    if of_units == count:
        return float(count)
    if share in (0.0, 1.0) or of_units == 1:
        return float(of_units)
    spread = of_units / (of_units - 1) * (np.bincount(number, holds - share) ** 2).sum() / count**2
    few = (stats.t.ppf((1 + LEVEL) / 2, count - 1) / stats.t.ppf((1 + LEVEL) / 2, of_units - 1)) ** 2
    independent = share * (1 - share) * few
    return float(independent / spread) if independent < count * spread else float(count)


def exact(share: float, count: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a share of so many independent examples (Clopper and Pearson, Biometrika 26,
    1934), in [0, 1]; the number may be a fraction."""
    yes, tail = share * count, (1 - LEVEL) / 2
    low = 0.0 if yes == 0 else float(stats.beta.ppf(tail, yes, count - yes + 1))
    high = 1.0 if yes == count else float(stats.beta.ppf(1 - tail, yes + 1, count - yes))
    return low, high


def newcombe(shares: tuple[float, float], counts: tuple[float, float]) -> Interval:
    """Return the difference of the first share and the second, of independent examples, with its 95 % interval.

    Newcombe's hybrid score interval, method 10 (Statistics in Medicine 17, 1998, page 873): of the ends of Wilson's
    intervals; within [-1, 1].
    """
    square = stats.norm.ppf((1 + LEVEL) / 2) ** 2
    ends = []
    for share, count in zip(shares, counts, strict=True):
        middle = share + square / (2 * count)
        half = np.sqrt(square * (share * (1 - share) + square / (4 * count)) / count)
        ends.append(((middle - half) / (1 + square / count), (middle + half) / (1 + square / count)))
    difference = shares[0] - shares[1]
    below = np.hypot(shares[0] - ends[0][0], ends[1][1] - shares[1])
    above = np.hypot(ends[0][1] - shares[0], shares[1] - ends[1][0])
    units = round(min(counts))
    return Interval(difference, float(difference - below), float(difference + above), NEWCOMBE, units)


def _of_metric(metric: Metric, contributions: Floats, group: npt.NDArray[np.bool_], units: Units) -> dict[str, Any]:
    """Return a metric of a group with its interval, that of the others, and the difference, for the report."""
    own, rest = (interval_of(metric, contributions[part], units[part]) for part in (group, ~group))
    difference = _difference(metric, contributions, group, units)
    few = min(own.units, rest.units) < MIN_EXAMPLES
    return {**own.as_json(), "rest": rest.value, "difference": difference.as_json(), "few": few}


def _difference(metric: Metric, contributions: Floats, group: npt.NDArray[np.bool_], units: Units) -> Interval:
    """Return the metric of a group less that of the others, with its t interval over units, of which some may have
    examples in both."""
    _, number = np.unique(units, return_inverse=True)
    changes, freedom = np.zeros(number.max() + 1), []
    for part, sign in ((group, 1), (~group, -1)):
        of_part = np.unique(number[part])
        pseudo = metric.pseudo(contributions[part], number[part])
        changes[of_part] += sign * (pseudo - pseudo.mean()) / np.sqrt(len(of_part) * max(len(of_part) - 1, 1))
        freedom.append(metric.freedom(contributions[part], number[part]))
    value = metric.of(contributions[group]) - metric.of(contributions[~group])
    reach = float(stats.t.isf((1 - LEVEL) / 2, min(freedom)) * np.sqrt((changes**2).sum()))
    return Interval(value, value - reach, value + reach, STUDENT, round(min(freedom)) + 1)


def _tested(
    groups: Masks,
    rates: Mapping[str, Rate],
    values: Mapping[str, tuple[Metric, Floats]],
    resamples: int,
    units: Units | None,
) -> dict[tuple[str, str], float]:
    """Return adjusted p-values by group and measure; none of a measure that has no difference to test."""
    if not groups:
        return {}
    influences = {measure: damage(metric, contributions, 1) for measure, (metric, contributions) in values.items()}
    if units is not None:
        everyone = np.ones(len(units), np.bool_)
        shares = {measure: (rate.holds.astype(np.float64), rate.among) for measure, rate in rates.items()}
        measures = shares | {measure: (each, everyone) for measure, each in influences.items()}
        families = [_over_units(groups, measure, *each, resamples, units) for measure, each in measures.items()]
    else:
        families = [_fisher(groups, rates)] if rates else []
        families += [_permuted(groups, measure, each, resamples) for measure, each in influences.items()]
    return {key: min(p_value * len(families), 1.0) for family in families for key, p_value in family.items()}


def _over_units(
    groups: Masks, measure: str, values: Floats, among: npt.NDArray[np.bool_], resamples: int, units: Units
) -> dict[tuple[str, str], float]:
    """Return the p-values of a measure's differences by permutations within units and between them; of a rate the
    examples `among` which it is one."""
    there = {name: group[among] for name, group in groups.items() if (among & group).any() and (among & ~group).any()}
    if not there or np.ptp(values[among]) == 0:
        return {}
    members = sparse.csr_matrix(np.array(list(there.values()), np.float64))
    two_sided = np.ones(len(there), np.bool_)
    tested = multiple_testing.permuted_over_units(members, values[among], units[among], two_sided, resamples)
    return {(name, measure): p_value for name, p_value in zip(there, tested.p_values.tolist(), strict=True)}


def _fisher(groups: Masks, rates: Mapping[str, Rate]) -> dict[tuple[str, str], float]:
    """Return the p-values of rates by Fisher's exact test, adjusted by Holm's method."""
    found = {}
    for name, group in groups.items():
        for measure, rate in rates.items():
            parts = [rate.among & group, rate.among & ~group]
            if all(part.any() for part in parts):
                table = [[int((rate.holds & part).sum()), int((~rate.holds & part).sum())] for part in parts]
                found[name, measure] = float(stats.fisher_exact(table).pvalue)
    return dict(zip(found, holm(np.array(list(found.values()))).tolist(), strict=True))


def _permuted(groups: Masks, measure: str, values: Floats, resamples: int) -> dict[tuple[str, str], float]:
    """Return the p-values of a metric's differences by permutations of what each example takes from it."""
    if np.ptp(values) == 0:
        return {}
    members = sparse.csr_matrix(np.array(list(groups.values()), np.float64))
    tested = multiple_testing.permuted(members, values, np.ones(len(groups), np.bool_), False, resamples)
    return {(name, measure): p_value for name, p_value in zip(groups, tested.p_values.tolist(), strict=True)}
