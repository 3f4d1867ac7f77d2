"""Whether whole numbers are codes of categories, or count."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import isotonic_regression

from tasks.guess.column import FEW_CLASSES, NUMBER, Column
from tasks.records.kinds import number

CODES = re.compile(
    r"(.*[_ ])?(type|kind|class|category|cat|group|sex|gender|race|status|state|colou?r|region|zone|zip|sector|"
    r"channel|brand|flag|is|has|id)|.*code\d*|(?-i:.*[a-z]I[dD])|month|(day_?of_?week|week_?day|dow)|quarter",
    re.I,
)
"""Names by which whole numbers are codes, or parts of a date that come again."""
COUNTS = re.compile(
    r"(num|count|n|no_of|number_of|qty|quantity|total|sum)[_ ].*|age|size|quantity|count|number|.*rooms?|children|"
    r"visits|(.*[_ ])?(count|num|qty|total|years?|days?|hours?|months?|rank|score)",
    re.I,
)
"""Names by which whole numbers count, or have an order."""
MOST_CODES = 1000
NOT_ORDERED = 0.001
"""p-value below which what is predicted neither rises nor falls with a code."""
FEW_CODES, OF_EACH = 7, 5
"""Different whole numbers at most, 0 or 1 the first, that are codes where nothing else tells, and rows of each."""
FEW_LEVELS = 4
"""Numbers from 1 at most that are codes also where each is rarer than the one before."""


def codes(name: str, column: Column, raw: pa.Array, outcomes: Sequence[NDArray[np.float64]]) -> str:
    """Return why the whole numbers of an input are codes; empty where they count, or have an order.

    Args:
        name: the last part of the column's.
        outcomes: what is predicted, as numbers by row.
    """
    if column.type != "number" or not column.whole or column.format is not None:
        return ""
    if CODES.fullmatch(name) and column.distinct <= min(MOST_CODES, column.rows // 4):
        return f"as its name says that its {column.distinct:,} whole numbers are codes"
    if COUNTS.fullmatch(name) or not 2 <= column.distinct <= FEW_CLASSES:
        return ""
    x = np.asarray(number.typed(NUMBER, raw, 0).values, np.float64)
    values, rows = np.unique(x[~np.isnan(x)], return_counts=True)
    counted = bool((np.diff(rows) < 0).all()) and (values[0] == 0 or len(values) > FEW_LEVELS)  # the more, the rarer
    if column.distinct == 2 or (column.distinct == 3 and rows.min() >= OF_EACH and not counted):
        return f"as it has only {column.distinct} values: {', '.join(f'{value:.0f}' for value in values)}"
    if (p_value := disorder(x, outcomes)) < NOT_ORDERED:
        return (
            f"as what is predicted neither rises nor falls with its {column.distinct} whole numbers (p = {p_value:.1g})"
        )
    numbered = values[0] in (0, 1) and values[-1] - values[0] == len(values) - 1
    if numbered and not counted and len(values) <= FEW_CODES and rows.min() >= OF_EACH:
        return f"as its values are the whole numbers from {values[0]:.0f} to {values[-1]:.0f}"
    return ""


def disorder(x: NDArray[np.float64], outcomes: Sequence[NDArray[np.float64]]) -> float:
    """Return the p-value of the hypothesis that the mean of each outcome rises, or falls, with x: the smallest times
    their number (Robertson, Wright and Dykstra, Order Restricted Statistical Inference, 1988, section 2.3, where the
    number of different fitted means is given)."""
    p_values = []
    for outcome in outcomes:
        there = ~np.isnan(x) & ~np.isnan(outcome)
        values, level, rows = np.unique(x[there], return_inverse=True, return_counts=True)
        within = int(there.sum()) - len(values)
        if len(values) < 3 or within < len(values):
            continue
        y = outcome[there]
        means = np.bincount(level, y) / rows
        pure = ((y - means[level]) ** 2).sum()
        p_values.append(max(_not_rising(sign * means, rows, pure, within) for sign in (1, -1)))
    return min(1.0, min(p_values) * len(p_values)) if p_values else 1.0


def _not_rising(means: NDArray[np.float64], rows: NDArray[np.int64], pure: float, within: int) -> float:
    """Return the p-value of means of so many rows that rise, by the sum of squares within them."""
    fitted = isotonic_regression(means, weights=rows)
    pooled = len(means) - (len(fitted.blocks) - 1)
    lack = float((rows * (means - fitted.x) ** 2).sum())
    if not pooled or lack <= 1e-9 * max(pure, float((rows * (means - means.mean()) ** 2).sum())):
        return 1.0
    return float(stats.f.sf(lack / pooled / (pure / within), pooled, within)) if pure > 0 else 0.0
