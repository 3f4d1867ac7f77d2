"""Differences between groups of examples: how often they are selected, and how often decisions about them are wrong.

Each group is compared with all other examples. Selection rate, true and false positive rate are those of demographic
parity and equalised odds (Hardt, Price and Srebro, arXiv 1610.02413). Many comparisons find differences by chance, so
p-values are adjusted by Holm's method over all groups and measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from tasks.evaluation import MIN_EXAMPLES
from tasks.evaluation.columns import Masks
from tasks.evaluation.intervals import LEVEL, interval_of
from tasks.evaluation.metrics import Means, Metric, Score
from tasks.evaluation.thresholds import Binary
from tasks.evaluation.units import Floats
from tasks.evaluation.worst_slices import damage, holm


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
    column: str, groups: Masks, rates: Mapping[str, Rate], values: Mapping[str, tuple[Metric, Floats]], resamples: int
) -> dict[str, Any]:
    """Return the measures of each group beside those of all others, for the report.

    Args:
        groups: the examples of each group.
        rates: shares of examples, by name; tested by Fisher's exact test.
        values: other metrics by name, with the contributions of the examples, [N, K]; tested by Welch's t-test.
    """
    large = {name: group for name, group in groups.items() if group.sum() >= MIN_EXAMPLES and not group.all()}
    rows: list[dict[str, Any]] = []
    for name, group in large.items():
        of_group = {"group": name, "examples": int(group.sum())}
        rows += [{**of_group, "measure": key} | _of_rate(rate, group, resamples) for key, rate in rates.items()]
        rows += [{**of_group, "measure": key} | _of_metric(*value, group, resamples) for key, value in values.items()]
    tested = [row for row in rows if row["p_value"] is not None]
    adjusted = holm(np.array([row["p_value"] for row in tested]))
    for row, p_value in zip(tested, adjusted, strict=True):
        row |= {"p_value": float(p_value), "beyond_chance": bool(p_value < 1 - LEVEL)}
    return {
        "column": column,
        "correction": "Holm",
        "compared": len(tested),
        "least_examples": MIN_EXAMPLES,
        "too_small": {name: int(group.sum()) for name, group in groups.items() if name not in large},
        "largest_differences": {measure: _largest(rows, measure) for measure in (*rates, *values)},
        "rows": rows,
    }


def _largest(rows: list[dict[str, Any]], measure: str) -> float | None:
    """Return the difference between the groups with the highest and with the lowest value."""
    values = [row["value"] for row in rows if row["measure"] == measure and row["value"] is not None]
    return max(values) - min(values) if values else None


def _of_rate(rate: Rate, group: npt.NDArray[np.bool_], resamples: int) -> dict[str, Any]:
    inside, outside = rate.among & group, rate.among & ~group
    if not inside.any() or not outside.any():
        return {"value": None, "rest": None, "difference": None, "p_value": None}
    columns = [rate.holds & inside, inside, rate.holds & outside, outside]
    contributions = np.stack(columns, axis=-1).astype(np.float64)
    table = [[int((rate.holds & part).sum()), int((~rate.holds & part).sum())] for part in (inside, outside)]
    difference = interval_of(Score(lambda values: values, _difference, lowest=-1.0), contributions[rate.among])
    own, rest = (float(rate.holds[part].mean()) for part in (inside, outside))
    p_value = float(stats.fisher_exact(table).pvalue)
    return {"value": own, "rest": rest, "difference": difference.as_json(), "p_value": p_value}


def _difference(means: Floats) -> Floats:
    """Return the difference of two ratios from means of [held inside, inside, held outside, outside]."""
    whole = np.maximum(means[..., (1, 3)], 1e-12)
    shares = means[..., (0, 2)] / whole
    difference: Floats = shares[..., 0] - shares[..., 1]
    return difference


def _of_metric(metric: Metric, contributions: Floats, group: npt.NDArray[np.bool_], resamples: int) -> dict[str, Any]:
    width = contributions.shape[-1]
    weight = np.stack([group, ~group], axis=-1).astype(np.float64)
    parts = [contributions * group[:, None], contributions * ~group[:, None], weight]

    def difference(means: Floats) -> Floats:
        shares = np.maximum(means[..., 2 * width :], 1e-12)
        inside, outside = means[..., :width] / shares[..., :1], means[..., width : 2 * width] / shares[..., 1:]
        return metric.value(inside) - metric.value(outside)  # type: ignore[attr-defined]

    change = interval_of(Means(lambda values: values, difference, lowest=-np.inf), np.concatenate(parts, axis=-1))
    own, rest = (metric.of(contributions[part]) for part in (group, ~group))
    influence = damage(metric, contributions, 1)
    p_value = float(stats.ttest_ind(influence[group], influence[~group], equal_var=False).pvalue)
    tested = p_value if np.isfinite(p_value) else None
    return {"value": own, "rest": rest, "difference": change.as_json(), "p_value": tested}
