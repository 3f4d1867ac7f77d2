"""Confidence intervals of metrics, at 95 %: of each kind of metric by its own estimate (see `estimates`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from tasks.evaluation.measured import LEVEL, Interval, Value
from tasks.evaluation.metrics import Metric
from tasks.evaluation.units import Floats, Units

ONE_SIDED = 2 * LEVEL - 1
"""Level of the two-sided interval whose ends are one-sided bounds at `LEVEL`."""

STUDENT = "Student's t"


def interval(metric: Metric, predictions: Any, units: Units | None = None) -> Interval:
    """Return a metric's 95 % interval over the units of the examples; `units` None: each example is one."""
    return interval_of(metric, metric.contributions(predictions), units)


def interval_of(metric: Metric, contributions: Floats, units: Units | None = None) -> Interval:
    """Return the same from the contributions of examples, [N, K]."""
    return Interval.of(metric.estimate(contributions, units))


def intervals(
    metrics: Mapping[str, Metric], names: tuple[str, ...], predictions: Any, units: Units | None = None
) -> dict[str, Value]:
    """Return the named metrics by name: an `Interval`, or a `Value` for a metric without one. One that has no value is
    left out, as the area under a curve is where all examples are of one class."""
    found = {
        name: interval(metric, predictions, units)
        if (metric := metrics[name]).resampled
        else Value(metric(predictions))
        for name in names
    }
    return {name: item for name, item in found.items() if np.isfinite(item.value)}


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
    return Interval(middle, middle - half, middle + half, STUDENT, len(values))


def difference(metric: Metric, before: Floats, after: Floats, units: Units | None = None) -> Interval:
    """Return a metric's change, with its interval, from contributions `before` to `after` of the same examples, [N, K].

    It is paired, so that it is narrower than those of the two values.
    """
    return Interval.of(metric.paired(before, after, units))
