"""The primary metric on groups of the examples: those of the task, of `evaluate.slices`, the worst ones, and groups
that are compared."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tasks.errors import Failed, Refused
from tasks.evaluation import columns, fairness, worst_slices
from tasks.evaluation.binary import USUAL
from tasks.evaluation.columns import Masks
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.intervals import interval_of
from tasks.evaluation.judging import Judge, Kept, contributions_of, metric_of
from tasks.evaluation.metrics import Metric
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.units import Floats, at
from tasks.records.reading import RecordsReader
from tasks.sources.features import Feature

NUMBER = ".example"
"""The column with the number of a row's example."""

LEAST, MOST = 5, 100
"""Smallest slice that gets a score, in examples, and the largest number of slices with one (the largest slices)."""


def features_of(records: Path) -> dict[str, Feature]:
    """Return the features of records by name."""
    return RecordsReader(records).features


def measured(
    judge: Judge, task: str, split: SnapshotSplit, kept: Kept, decision: Decision, config: EvaluateConfig
) -> dict[str, Any]:
    """Return the fields `slices`, `worst_slices` and `groups` of a split in the report, as far as they are asked for.

    Raises:
        Failed: the records do not have a column of the config.
    """
    name, higher = config.primary_of(task)
    metric, predictions = metric_of(judge, name), judge.predictions(kept)
    contributions = contributions_of(judge, kept, config)[name]
    features = features_of(split.records)
    try:
        columns.check(features, config)
    except Refused as unfit:
        raise Failed(unfit.field, unfit.saw, unfit.rule, unfit.remedy) from None
    wanted = set(columns.needed(features, config)) | set(columns.conditional(features) if config.found else ())
    frame = split.columns([each for each in features if each in wanted]) if wanted else pl.DataFrame()
    own, divided = of_examples(judge, columns.of_config(frame, features, config))
    masks = {**judge.slices(predictions), **own}
    fields: dict[str, Any] = {"slices": _scored(judge, metric, contributions, masks, divided)}
    if config.found:
        sign, of_each = 1 if higher else -1, example_columns(judge, frame)
        known = {name: features[name] for name in of_each.columns}
        found = worst_slices.find(
            of_each, known, metric, contributions, sign, config.found, config.resamples, judge.units
        )
        left_out = [name for name in columns.conditional(features) if name not in known]
        fields["worst_slices"] = found | ({"columns_left_out": left_out} if left_out else {})
    if config.groups is not None:
        groups, _ = of_examples(judge, columns.of_column(frame[config.groups], features[config.groups].kind))
        fields["groups"] = _compared(judge, name, predictions, contributions, decision, groups, config)
    return fields


def masks_of(judge: Judge, split: SnapshotSplit, predictions: Any, config: EvaluateConfig) -> Masks:
    """Return the slices of the task and those of `evaluate.slices`, bool [examples] by name."""
    features = features_of(split.records)
    wanted = columns.needed(features, config)
    frame = split.columns(wanted) if wanted else pl.DataFrame()
    return {**judge.slices(predictions), **of_examples(judge, columns.of_config(frame, features, config))[0]}


def of_examples(judge: Judge, masks: Masks) -> tuple[Masks, dict[str, int]]:
    """Return slices of examples from those of rows, and how many examples each divides.

    An example of several rows, as a query of several documents, is in a slice where all of them are.
    """
    if judge.example_of is None:
        return masks, {}
    used = judge.example_of >= 0
    rows = np.bincount(judge.example_of[used], minlength=judge.examples)
    inside = {
        name: np.bincount(judge.example_of[used & mask], minlength=judge.examples) for name, mask in masks.items()
    }
    divided = {name: int(((count > 0) & (count < rows)).sum()) for name, count in inside.items()}
    return {name: count == rows for name, count in inside.items()}, divided


def example_columns(judge: Judge, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each example from those of the records; without the columns that differ within one."""
    if judge.example_of is None:
        return frame
    numbered = frame.with_columns(pl.Series(NUMBER, judge.example_of)).filter(pl.col(NUMBER) >= 0)
    values = numbered.group_by(NUMBER, maintain_order=True).agg(pl.all().n_unique())
    same = [name for name in frame.columns if values[name].max() == 1]
    return numbered.group_by(NUMBER).agg(pl.col(*same).first()).sort(NUMBER).select(same) if same else pl.DataFrame()


def _scored(
    judge: Judge, metric: Metric, contributions: Floats, masks: Masks, divided: dict[str, int]
) -> list[dict[str, Any]]:
    """Return the metric on groups of the examples, or the reason why a group has no score."""
    groups = {name: (group, int(group.sum())) for name, group in masks.items()}
    large_enough = [name for name, (_, count) in groups.items() if LEAST <= count < judge.examples]
    largest = set(sorted(large_enough, key=lambda name: -groups[name][1])[:MOST])
    rows = []
    for name, (group, count) in groups.items():
        row: dict[str, Any] = {"slice": name, "examples": count}
        if divided.get(name):
            row["divided"] = divided[name]
        if name in largest:
            found = interval_of(metric, contributions[group], at(judge.units, group))
            if isfinite(found.value):
                rows.append(row | found.as_json())
                continue
        reason = (
            f"fewer than {LEAST}"
            if count < LEAST
            else "the whole split"
            if count == judge.examples
            else "one kind of examples"
            if name in largest
            else "beyond the limit"
        )
        rows.append(row | {"value": None, "low": None, "high": None, "why": reason})
    return rows


def _compared(
    judge: Judge,
    name: str,
    predictions: Any,
    contributions: Floats,
    decision: Decision,
    groups: Masks,
    config: EvaluateConfig,
) -> dict[str, Any]:
    """Compare groups by the rates of each yes-or-no decision; without one by the primary metric."""
    rates: dict[str, fairness.Rate] = {}
    decisions = judge.binary(decision.apply(predictions))
    for which, each in decisions.items():
        threshold = USUAL if decision.thresholds is None else decision.thresholds[which]
        prefix = f"{which}: " if len(decisions) > 1 else ""
        rates |= {f"{prefix}{measure}": rate for measure, rate in fairness.rates_of(each, threshold).items()}
    metric = metric_of(judge, name)
    if not decisions and metric.share:
        rates = {name: fairness.Rate(contributions[:, 0] > 0, np.ones(len(contributions), np.bool_))}
    values = {} if rates else {name: (metric, contributions)}
    return fairness.compare(str(config.groups), groups, rates, values, config.resamples, judge.units)
