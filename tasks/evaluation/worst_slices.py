"""The worst slices, found among conditions on the columns and pairs of them, and tested against the other examples.

As in Chung et al., "Slice Finder" (ICDE 2019, arXiv 1807.06068), a slice is compared with all examples outside of it.
Where many are looked at, some look bad by chance: the p-values are those of the largest of all differences
(`tasks.evaluation.multiple_testing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse
from scipy.special import ndtri

from tasks.evaluation import MIN_EXAMPLES, multiple_testing
from tasks.evaluation.columns import Masks, conditional, of_column
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.measured import LEVEL
from tasks.evaluation.metrics import Metric
from tasks.evaluation.multiple_testing import OVER_UNITS, PERMUTED, Tested
from tasks.evaluation.units import Floats, Units, at
from tasks.sources.features import Feature

SHOWN = 5
"""Slices that are shown with `evaluate.find_slices: true`."""

MOST_CONDITIONS = 256
"""Conditions that are paired, at most: those with the most examples."""

MOST_VALUES = 20
"""Values of a column that are conditions, at most."""

MOST_MEMBERS = 1 << 23
"""Examples of all slices together, at most, of the largest slices; bounds memory and time."""

BLOCK = 1 << 15
"""Examples whose conditions are counted at once; bounds the memory."""

POWER = 0.8
"""Probability of finding the difference that the report names."""

Conditions = tuple[int, ...]
"""The numbers of one condition, or of two."""


@dataclass(frozen=True)
class Slices:
    """M slices that are looked at. Two names of the same examples are one slice, and so are a slice and its rest."""

    conditions: list[Conditions]
    rests: list[Conditions | None]
    """The conditions of all other examples, where those have some."""
    members: sparse.csr_matrix
    """1 where an example is in a slice, float64 [M, N]."""

    @property
    def two_sided(self) -> npt.NDArray[np.bool_]:
        """Whether all other examples are a slice too, bool [M]."""
        return np.array([rest is not None for rest in self.rests], np.bool_)

    @property
    def examples(self) -> Floats:
        """Examples of each slice, float64 [M]."""
        return np.asarray(self.members.sum(axis=1), np.float64).ravel()

    def worse(self, statistics: Floats) -> list[Conditions]:
        """Return the conditions of each slice, or of its rest where the statistic [M] says that this is worse."""
        sides = zip(self.conditions, self.rests, statistics, strict=True)
        return [rest if rest is not None and statistic < 0 else own for own, rest, statistic in sides]


def find(
    frame: pl.DataFrame,
    features: Mapping[str, Feature],
    metric: Metric,
    contributions: Floats,
    sign: int,
    shown: int,
    resamples: int,
    units: Units | None = None,
) -> dict[str, Any]:
    """Return the worst slices for the report, how many were looked at, and the difference that would have been found.

    Those that are worse beyond chance come first, the worst of them before the others; then those with the lowest
    p-values. A pair of conditions is shown where it is worse than either; of a slice and its rest the worse one.

    Args:
        frame: the columns of the examples, [N].
        contributions: of the examples to the metric, [N, K].
        sign: 1 where a higher value of the metric is better, else -1.
        shown: number of slices that are returned.
        resamples: how often chance is drawn.
        units: the number of the independent unit of each example, int64 [N]; None where each is one.
    """
    masks, owners = _conditions(frame, features)
    names, groups = list(masks), list(masks.values())
    of_each, slices = damage(metric, contributions, sign), _looked_at(groups, owners, len(frame))
    report = {"least_examples": MIN_EXAMPLES, "correction": PERMUTED if units is None else OVER_UNITS}
    if not slices.conditions:
        return {"looked_at": 0, **report, "found_from": None, "slices": []}
    tested = _tested(slices, of_each, metric.share, units, resamples)
    worse, beyond = slices.worse(tested.statistics), tested.p_values < 1 - LEVEL
    alone = [of_each[group].mean() for group in groups]
    sums, counts, turned = slices.members @ of_each, slices.examples, slices.two_sided & (tested.statistics < 0)
    harm = np.where(turned, (of_each.sum() - sums) / (len(frame) - counts), sums / counts)
    found: list[dict[str, Any]] = []
    for row in np.lexsort((tested.p_values, np.where(beyond, -harm, 0.0), ~beyond)).tolist():
        conditions = worse[row]
        if len(conditions) > 1 and any(harm[row] <= alone[each] for each in conditions):
            continue
        inside = np.logical_and.reduce([groups[each] for each in conditions])
        found.append(
            {
                "slice": " and ".join(names[each] for each in conditions),
                "examples": int(inside.sum()),
                **interval_of(metric, contributions[inside], at(units, inside)).as_json(),
                "rest": metric.of(contributions[~inside]),
                "p_value": float(tested.p_values[row]),
                "beyond_chance": bool(beyond[row]),
            }
        )
        if len(found) == shown:
            break
    return {"looked_at": len(beyond), **report, "found_from": _found_from(slices, tested), "slices": found}


def damage(metric: Metric, contributions: Floats, sign: int) -> Floats:
    """Return what each example takes from the metric, float64 [N]: of a share whether it is wrong, of others the change
    of the value without it (infinitesimal jackknife)."""
    if metric.share:
        return 1 - contributions[:, 0] if sign > 0 else contributions[:, 0]
    pseudo = metric.pseudo(contributions, None)
    changes: Floats = sign * (pseudo.mean() - pseudo)
    return changes


def _found_from(slices: Slices, tested: Tested) -> dict[str, Any] | None:
    """Return the difference that is found with probability `POWER`: by how much a slice of the median size must be
    worse than all others, in units of the metric (of what `damage` says); None where all values are equal."""
    difference = (tested.critical + ndtri(POWER)) * np.median(tested.errors)
    if not difference:
        return None
    return {"difference": float(difference), "examples": int(np.median(slices.examples)), "power": POWER}


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


def _looked_at(masks: list[npt.NDArray[np.bool_]], owners: npt.NDArray[np.int64], total: int) -> Slices:
    """Return each condition, and each pair of conditions on two columns that is smaller than either, as slices.

    Each has, and leaves, at least `MIN_EXAMPLES`. The largest ones are looked at if all are too many. A slice is known
    by the sum of random numbers of its examples, and so is its rest.
    """
    left, right, sizes = _pairs(masks, owners, total)
    largest = np.argsort(-sizes, kind="stable")
    kept = np.sort(largest[np.cumsum(sizes[largest]) <= MOST_MEMBERS])
    numbers = np.random.default_rng(0).integers(0, 1 << 64, total, np.uint64)
    everyone = int(numbers.sum())
    place: dict[int, int] = {}
    conditions: list[Conditions] = []
    rests: list[Conditions | None] = []
    rows: list[npt.NDArray[np.int64]] = []
    for one, other in zip(left[kept].tolist(), right[kept].tolist(), strict=True):
        inside = np.flatnonzero(masks[one] & masks[other])
        names = (one,) if one == other else (one, other)
        known = int(numbers[inside].sum())
        known_rest = (everyone - known) % (1 << 64)
        if known in place:
            continue
        if known_rest in place:
            rests[place[known_rest]] = rests[place[known_rest]] or names
            continue
        place[known] = len(conditions)
        conditions.append(names)
        rests.append(None)
        rows.append(inside)
    starts = np.cumsum([0, *map(len, rows)])
    everything = np.concatenate([np.zeros(0, np.int64), *rows])
    members = sparse.csr_matrix((np.ones(len(everything)), everything, starts), (len(rows), total))
    return Slices(conditions, rests, members)


def _pairs(
    masks: list[npt.NDArray[np.bool_]], owners: npt.NDArray[np.int64], total: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the two conditions of each slice, of a single condition twice the same, and its examples; int64 [M]."""
    count = len(masks)
    numbers = np.zeros((count, count))
    for start in range(0, total, BLOCK):
        block = np.array([mask[start : start + BLOCK] for mask in masks], np.float32).reshape(
            count, min(BLOCK, total - start)
        )
        numbers += block @ block.T
    alone = np.diag(numbers)
    upper = np.triu(numbers >= MIN_EXAMPLES, 1) & (owners[:, None] != owners[None, :])
    upper &= (total - numbers >= MIN_EXAMPLES) & (numbers < np.minimum(alone[:, None], alone[None, :]))
    left, right = (np.concatenate([np.arange(count), each]) for each in np.nonzero(upper))
    return left, right, numbers[left, right].astype(np.int64)


def _tested(slices: Slices, values: Floats, share: bool, units: Units | None, resamples: int) -> Tested:
    """Test whether values [N] are higher inside of each slice, or of its rest where that is one too."""
    if units is None:
        return multiple_testing.permuted(slices.members, values, slices.two_sided, share, resamples)
    return multiple_testing.permuted_over_units(slices.members, values, units, slices.two_sided, resamples)
