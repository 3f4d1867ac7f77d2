"""Whether whole numbers are codes of categories, or count."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

from tasks.data.guess.column import FEW_CLASSES, NUMBER, Column
from tasks.data.kinds import number

CODES = re.compile(
    r"(.*[_ ])?(type|kind|code|class|category|cat|group|sex|gender|race|status|state|colou?r|region|zone|zip(_?code)?|"
    r"postal_?code|sector|channel|brand|flag|is|has)",
    re.I,
)
"""Names by which whole numbers are codes."""
COUNTS = re.compile(
    r"(num|count|n|no_of|number_of|qty|quantity|total|sum)[_ ].*|age|size|quantity|count|.*rooms?|children|visits|"
    r"(.*[_ ])?(count|num|qty|total|years?|days?|hours?|months?|level|rank|score)",
    re.I,
)
"""Names by which whole numbers count, or have an order."""
MOST_CODES = 1000
NO_LINE = 0.001
"""p-value below which what a code says of what is predicted is not on a line."""


def codes(name: str, column: Column, raw: pa.Array, outcomes: Sequence[NDArray[np.float64]]) -> str:
    """Return why the whole numbers of an input are codes; empty where they count, or have an order.

    Args:
        name: the last part of the column's.
        outcomes: what is predicted, as numbers by row.
    """
    if column.type != "number" or not column.whole or COUNTS.fullmatch(name) or column.format is not None:
        return ""
    if CODES.fullmatch(name) and column.distinct <= min(MOST_CODES, column.rows // 4):
        return f"as its name says that its {column.distinct:,} whole numbers are codes"
    if not 2 < column.distinct <= FEW_CLASSES or not outcomes:
        return ""
    p_value = lack_of_fit(np.asarray(number.typed(NUMBER, raw, 0).values, np.float64), outcomes)
    if p_value >= NO_LINE:
        return ""
    return f"as what is predicted does not rise or fall with its {column.distinct} whole numbers (p = {p_value:.1g})"


def lack_of_fit(x: NDArray[np.float64], outcomes: Sequence[NDArray[np.float64]]) -> float:
    """Return the p-value of the lack of fit of a line to outcomes against x, the smallest times their number (Draper
    and Smith, Applied Regression Analysis, 1998, section 2.1)."""
    p_values = []
    for outcome in outcomes:
        there = ~np.isnan(x) & ~np.isnan(outcome)
        values, level = np.unique(x[there], return_inverse=True)
        within, between = int(there.sum()) - len(values), len(values) - 2
        if between < 1 or within < len(values):
            continue
        y = outcome[there]
        means = (np.bincount(level, y) / np.bincount(level))[level]
        slope, start = np.polyfit(x[there], y, 1)
        lack, pure = ((means - slope * x[there] - start) ** 2).sum(), ((y - means) ** 2).sum()
        if lack > 1e-9 * max(pure, ((y - y.mean()) ** 2).sum()):
            p_values.append(float(stats.f.sf(lack / between / (pure / within), between, within)) if pure > 0 else 0.0)
    return min(1.0, min(p_values, default=1.0) * len(p_values))
