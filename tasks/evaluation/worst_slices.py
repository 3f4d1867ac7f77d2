"""The worst slices, found among conditions on the columns and pairs of them, and tested against the other examples.

As in Chung et al., "Slice Finder" (ICDE 2019, arXiv 1807.06068), a slice is compared with all examples outside of it.
Where many are looked at, some look bad by chance: p-values are adjusted by Holm's method (Scandinavian Journal of
Statistics 6, 1979), which holds whatever the slices share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

from tasks.data.features import Feature
from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.columns import Masks, conditional, of_column
from tasks.evaluation.intervals import LEVEL, interval_of
from tasks.evaluation.metrics import Metric
from tasks.evaluation.units import Floats

SHOWN = 5
"""Slices that are shown with `evaluate.find_slices: true`."""

MOST_CONDITIONS = 256
"""Conditions that are paired, at most: those with the most examples."""

MOST_VALUES = 20
"""Values of a column that are conditions, at most."""

BLOCK = 1 << 15
"""Examples whose conditions are counted at once; bounds the memory."""


@dataclass(frozen=True)
class Slices:
    """Slices by their conditions: for each the examples, the mean damage, and the p-value of its being worse."""

    conditions: list[tuple[int, ...]]
    examples: Floats
    damage: Floats
    p_values: Floats


def find(
    frame: pl.DataFrame,
    features: Mapping[str, Feature],
    metric: Metric,
    contributions: Floats,
    sign: int,
    shown: int,
    resamples: int,
) -> dict[str, Any]:
    """Return the worst slices for the report, and how many were looked at.

    Those that are worse beyond chance come first, the worst of them before the others; then those with the lowest
    p-values. A pair of conditions is shown where it is worse than either.

    Args:
        frame: the columns of the examples, [N].
        contributions: of the examples to the metric, [N, K].
        sign: 1 where a higher value of the metric is better, else -1.
        shown: number of slices that are returned.
    """
    masks, owners = _conditions(frame, features)
    names, groups = list(masks), list(masks.values())
    tested = _tested(groups, owners, damage(metric, contributions, sign), metric.share)
    adjusted = holm(tested.p_values)
    beyond = adjusted < 1 - LEVEL
    by_itself = {conditions[0]: row for row, conditions in enumerate(tested.conditions) if len(conditions) == 1}
    order = np.lexsort((tested.p_values, np.where(beyond, -tested.damage, 0.0), ~beyond))
    found: list[dict[str, Any]] = []
    for row in order.tolist():
        conditions = tested.conditions[row]
        parents = [by_itself[each] for each in conditions if each in by_itself]
        if len(conditions) > 1 and any(tested.damage[row] <= tested.damage[parent] for parent in parents):
            continue
        inside = np.logical_and.reduce([groups[each] for each in conditions])
        found.append(
            {
                "slice": " and ".join(names[each] for each in conditions),
                "examples": int(inside.sum()),
                **interval_of(metric, contributions[inside]).as_json(),
                "rest": metric.of(contributions[~inside]),
                "p_value": float(adjusted[row]),
                "beyond_chance": bool(beyond[row]),
            }
        )
        if len(found) == shown:
            break
    return {"looked_at": len(adjusted), "least_examples": MIN_EXAMPLES, "correction": "Holm", "slices": found}


def damage(metric: Metric, contributions: Floats, sign: int) -> Floats:
    """Return what each example takes from the metric, float64 [N]: of a share whether it is wrong, of others the change
    of the value without it (infinitesimal jackknife)."""
    if metric.share:
        return 1 - contributions[:, 0] if sign > 0 else contributions[:, 0]
    pseudo = metric.pseudo(contributions, None)
    changes: Floats = sign * (pseudo.mean() - pseudo)
    return changes


def holm(p_values: Floats) -> Floats:
    """Return p-values adjusted by Holm's method, [M]."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted


def _conditions(frame: pl.DataFrame, features: Mapping[str, Feature]) -> tuple[Masks, npt.NDArray[np.int64]]:
    """Return the conditions with enough examples, the largest ones if there are many, and the column of each."""
    masks: Masks = {}
    owners: list[int] = []
    for number, name in enumerate(conditional(features)):
        of_one = of_column(frame[name], features[name].kind, MOST_VALUES)
        kept = {key: mask for key, mask in of_one.items() if MIN_EXAMPLES <= mask.sum() <= len(frame) - MIN_EXAMPLES}
        masks |= kept
        owners += [number] * len(kept)
    names = list(masks)
    largest = sorted(range(len(names)), key=lambda row: (-int(masks[names[row]].sum()), row))[:MOST_CONDITIONS]
    chosen = sorted(largest)
    return {names[row]: masks[names[row]] for row in chosen}, np.array([owners[row] for row in chosen], np.int64)


def _tested(masks: list[npt.NDArray[np.bool_]], owners: npt.NDArray[np.int64], values: Floats, share: bool) -> Slices:
    """Test each condition, and each pair of conditions on two columns, against the other examples.

    Of values 0 or 1 the test is Fisher's exact one, of others Welch's t-test (Biometrika 34, 1947); both one-sided.
    """
    count, total = len(masks), len(values)
    if not count:
        return Slices([], *np.zeros((3, 0)))
    sums = np.zeros((3, count, count))
    powers = (np.ones(total), values, values**2)
    for start in range(0, total, BLOCK):
        block = np.array([mask[start : start + BLOCK] for mask in masks], np.float64).reshape(count, -1)
        for place, power in enumerate(powers):
            sums[place] += (block * power[start : start + BLOCK]) @ block.T
    numbers, first, second = sums
    alone = np.diag(numbers)
    upper = np.triu(numbers >= MIN_EXAMPLES, 1) & (owners[:, None] != owners[None, :])
    upper &= (total - numbers >= MIN_EXAMPLES) & (numbers < np.minimum(alone[:, None], alone[None, :]))
    left, right = np.nonzero(upper)
    left, right = (np.concatenate([np.arange(count), each]) for each in (left, right))
    n, s, q = (each[left, right] for each in (numbers, first, second))
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    conditions = [tuple(dict.fromkeys(pair)) for pair in pairs]
    if share:
        p_values = stats.hypergeom.sf(np.rint(s) - 1, total, int(values.sum()), n.astype(np.int64))
    else:
        p_values = _welch(n, s, q, total, values)
    return Slices(conditions, n, s / np.maximum(n, 1), np.asarray(p_values, np.float64))


def _welch(n: Floats, s: Floats, q: Floats, total: int, values: Floats) -> Floats:
    """Return one-sided p-values of the mean inside being larger than outside, from counts, sums and sums of squares."""
    outside, rest, squares = total - n, values.sum() - s, (values**2).sum() - q
    inner, outer = (np.maximum(b - a**2 / m, 0) / (m - 1) / m for m, a, b in ((n, s, q), (outside, rest, squares)))
    spread = np.sqrt(inner + outer)
    freedom = (inner + outer) ** 2 / np.maximum(inner**2 / (n - 1) + outer**2 / (outside - 1), 1e-300)
    difference = s / n - rest / outside
    t = np.divide(difference, spread, out=np.zeros_like(spread), where=spread > 0)
    p_values: Floats = stats.t.sf(t, np.maximum(freedom, 1.0))
    return p_values
