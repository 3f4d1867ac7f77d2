"""A model beside its baselines on the same examples: differences with intervals, for the report and the gate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tasks.config.task import CONSTANT, TASKS
from tasks.evaluation.baselines.simple_model import Learned
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.judging import Judge, Kept
from tasks.evaluation.measured import BesideBaseline, Interval
from tasks.evaluation.metrics import Metric
from tasks.evaluation.paired import change
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.units import Floats


def measured(
    task: str, judge: Judge, split: SnapshotSplit, simple: Learned | None, kept: Kept, config: EvaluateConfig
) -> dict[str, Any]:
    """Return the fields `baselines` and `learned_baseline` (null without one) of a split in the report.

    Each has its value of the primary metric, the difference of the model from it, and whether that is more than noise.
    Differences are paired by example (`tasks.evaluation.paired`); a constant baseline without a value for each example,
    such as a size after compression, does not vary: the difference has the ends of the model's interval less its value.
    One of `evaluate.own_metrics` has no baselines.
    """
    metric, higher = config.primary_of(task)
    fields: dict[str, Any] = {"baselines": {}, "learned_baseline": None}
    if metric in config.own_metrics:
        return fields
    kind, predictions = judge.metrics[metric], judge.predictions(kept)
    beside = partial(_paired, kind, kind.contributions(predictions), judge, config.resamples)
    best = best_constant(judge, predictions, kind, higher)
    names = dict.fromkeys(judge.baselines) if metric == TASKS[task].metrics[0] else {f"{CONSTANT}{metric}": None}
    for place, name in enumerate(names):
        if place:
            found = _from_value(name, judge.baselines[name], kind, kind.contributions(predictions), judge)
        elif best is not None:
            found = beside(name, best)
        else:
            continue
        fields["baselines"][name] = found.as_json()
    if simple is not None:
        other = kind.contributions(simple.predictions(judge, split))
        fields["learned_baseline"] = {
            "name": simple.name,
            **beside(simple.name, other).as_json(),
            **interval_of(kind, other, judge.units).as_json(),
            "trained_on": simple.rows,
            "left_out": list(simple.left_out),
        }
    return fields


def best_constant(judge: Judge, of_model: Any, metric: Metric, higher_is_better: bool) -> Floats | None:
    """Return the contributions of the constant answer with the best value of a metric; None where it has none."""
    found = [metric.contributions(each) for each in judge.constants(of_model)]
    values = [metric.of(each) * (1 if higher_is_better else -1) for each in found if np.isfinite(each).all()]
    return found[int(np.argmax(values))] if values else None


def flat(split: str, fields: Mapping[str, Any], metric: str) -> dict[str, float]:
    """Return the learned baseline's value and the difference from it, by flat name (`test/learned_baseline/accuracy`);
    the constant ones have the names of `Task.baselines`."""
    row = fields["learned_baseline"]
    if row is None:
        return {}
    ends = ("value", "low", "high", "method", "units")
    value, difference = (Interval(*(of[end] for end in ends)) for of in (row, row["difference"]))
    name = f"{split}/learned_baseline/{metric}"
    return value.flat(name) | difference.flat(f"{name}_difference")


def _paired(metric: Metric, own: Floats, judge: Judge, resamples: int, name: str, other: Floats) -> BesideBaseline:
    found = change(metric, other, own, resamples, judge.units)
    return BesideBaseline(name, metric.of(other), found.difference, found.more_than_noise)


def _from_value(name: str, value: float, metric: Metric, own: Floats, judge: Judge) -> BesideBaseline:
    of_model = interval_of(metric, own, judge.units)
    away, low, high = (each - value for each in (of_model.value, of_model.low, of_model.high))
    difference = Interval(away, low, high, of_model.method, of_model.units)
    significant = of_model.units > 1 and not difference.low <= 0 <= difference.high
    return BesideBaseline(name, value, difference, significant)
