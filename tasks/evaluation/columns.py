"""The columns of the records behind the examples of a split, and the slices that conditions on them make."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.errors import Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.records.rules import COMPARED, DTYPES
from tasks.sources.features import PREDICTED, Feature

Masks = dict[str, npt.NDArray[np.bool_]]
"""The examples of each slice, bool [N] by name."""

VALUED = ("category", "label", "key")
"""Kinds of columns whose slices are their values; those of others are quartiles."""

MOST_VALUES = 100
"""Values of a column that are slices, at most: the most frequent ones."""

MISSING = "missing"

LEFT_OUT = (*PREDICTED, "weight", "key", "split")
"""Roles of columns that make no conditions: the truth, whose slices each report has, and names of examples."""


def comparable(features: Mapping[str, Feature]) -> dict[str, str]:
    """Return the kinds of the columns with one value, which conditions can compare."""
    return {name: each.kind for name, each in features.items() if each.kind in COMPARED and not each.shape}


def conditional(features: Mapping[str, Feature]) -> list[str]:
    """Return the names of the columns that make conditions of the worst slices."""
    kinds = comparable(features)
    return [name for name in kinds if features[name].role not in LEFT_OUT and kinds[name] != "text"]


def check(features: Mapping[str, Feature], config: EvaluateConfig) -> None:
    """Raise `Refused` where a slice or group is none of these columns, or not a condition on them."""
    kinds = comparable(features)
    for slice_ in config.slices:
        if slice_ in features:
            check_column("evaluate.slices", slice_, features)
        else:
            _check_condition(slice_, kinds)
    if config.groups is not None:
        check_column("evaluate.groups", config.groups, features)
    if config.found and not conditional(features):
        rule = f"conditions are on numbers, categories and times, and the columns are {', '.join(sorted(features))}"
        raise Refused("evaluate.find_slices", config.find_slices, rule, "leave it out")


def check_column(field: str, name: str, features: Mapping[str, Feature]) -> None:
    """Raise `Refused` for a column that is not there, or has no slices of its own."""
    if name not in features:
        raise unknown(field, name, features)
    feature = features[name]
    if feature.shape or feature.kind not in COMPARED or feature.kind == "text":
        rule = f"a slice for each value or quartile needs one number, category, label or time, not {feature.kind}"
        remedy = f"use a condition, such as LENGTH({name}) > 100" if feature.kind == "text" else "leave it out"
        raise Refused(field, name, rule, remedy)


def unknown(field: str, name: str, known: Iterable[str]) -> Refused:
    """Return the error for a column that is not there, with the nearest name."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    remedy = f"did you mean {near[0]}?" if near else "choose among these"
    return Refused(field, name, f"the columns are {', '.join(sorted(known))}", remedy)


def _check_condition(condition: str, kinds: Mapping[str, str]) -> None:
    field = "evaluate.slices"
    try:
        expression = pl.sql_expr(condition)
    except (pl.exceptions.PolarsError, ValueError) as error:
        rule = f"must be a column or an SQL condition: {str(error).splitlines()[0]}"
        raise Refused(field, condition, rule, "correct it") from None
    for name in expression.meta.root_names():
        if name not in kinds:
            raise unknown(field, name, kinds)
    empty = pl.DataFrame({name: pl.Series([], dtype=DTYPES.get(kind, pl.String)) for name, kind in kinds.items()})
    try:
        dtype = empty.select(expression.alias("holds"))["holds"].dtype
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise Refused(field, condition, f"must fit the columns: {str(error).splitlines()[0]}", "correct it") from None
    if dtype != pl.Boolean:
        rule = f"must be true or false for each example, and is {dtype}"
        raise Refused(field, condition, rule, "write a comparison, such as age >= 18")


def needed(features: Mapping[str, Feature], config: EvaluateConfig) -> list[str]:
    """Return the columns that the slices and groups of the config read, in the order of the features."""
    used = set() if config.groups is None else {config.groups}
    for slice_ in config.slices:
        used |= {slice_} if slice_ in features else set(pl.sql_expr(slice_).meta.root_names())
    return [name for name in features if name in used]


def of_config(frame: pl.DataFrame, features: Mapping[str, Feature], config: EvaluateConfig) -> Masks:
    """Return the slices of `evaluate.slices` over a frame of the examples' columns."""
    masks: Masks = {}
    for slice_ in config.slices:
        if slice_ in features:
            masks |= of_column(frame[slice_], features[slice_].kind)
        else:
            holds = frame.select(pl.sql_expr(slice_).alias("holds"))["holds"]
            masks[slice_] = holds.fill_null(False).to_numpy()
    return masks


def of_column(column: pl.Series, kind: str, most: int = MOST_VALUES) -> Masks:
    """Return a slice for each value of a column (the most frequent first), or for each quartile, and for missing."""
    name, masks = column.name, Masks()
    if kind in VALUED:
        values = column.drop_nulls().value_counts(sort=False)
        ordered = sorted(values.rows(), key=lambda row: (-row[1], str(row[0])))[:most]
        masks |= {f"{name} = {value}": (column == value).fill_null(False).to_numpy() for value, _ in ordered}
    else:
        masks |= quartiles(column)
    if column.null_count():
        masks[f"{name} {MISSING}"] = column.is_null().to_numpy()
    return masks


def quartiles(column: pl.Series) -> Masks:
    """Return the quartiles of numbers or times, named by their bounds; fewer where values are equal."""
    there = column.is_not_null().to_numpy()
    numbers = column.to_physical().cast(pl.Float64).to_numpy()
    if not there.any():
        return {}
    edges = np.unique(np.quantile(numbers[there], (0.25, 0.5, 0.75)))
    which = np.where(there, np.searchsorted(edges, numbers), -1)
    masks = Masks()
    for number in range(len(edges) + 1):
        if (mask := which == number).any():
            inside = column.filter(pl.Series(mask))
            masks[f"{column.name} {_shown(inside.min())} to {_shown(inside.max())}"] = mask
    return masks


def _shown(value: Any) -> str:
    """Format a bound: a number to 6 digits, a time to the minute."""
    return f"{value:.6g}" if isinstance(value, int | float) else value.strftime("%Y-%m-%d %H:%M")
