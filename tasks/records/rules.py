"""Checks of typed rows: the rules of `records.schema_file`, and the condition `records.filter`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from tasks.config.records import RecordsConfig
from tasks.errors import Refused
from tasks.records.schema import Schema
from tasks.sources.features import NO_TIME, Feature

COMPARED = ("number", "category", "text", "label", "time", "key")
"""Kinds of features with one value that a condition can compare."""
DTYPES: dict[str, Any] = {"number": pl.Float64, "time": pl.Datetime("us", "UTC")}


class Rules:
    """Rules and filter of a config, over features with one value; picklable once made."""

    def __init__(self, features: dict[str, Feature], config: RecordsConfig) -> None:
        """Read the rules and try the filter on no rows; raises `Refused` where they do not fit the columns."""
        self._kinds = {
            name: feature.kind for name, feature in features.items() if feature.kind in COMPARED and not feature.shape
        }
        self._filter = config.filter
        self._schema = None if config.schema_file is None else Schema(Path(config.schema_file), self._empty())
        if self._filter is not None:
            self._try_filter(self._filter)

    def check(self, table: pa.Table, rows: NDArray[np.int64], bad: dict[int, str]) -> None:
        """Add to `bad` the reasons why these rows break a rule."""
        if self._schema is not None and len(rows):
            for position, reason in self._schema.failures(self._frame(table, rows)).items():
                bad.setdefault(int(rows[position]), reason)

    def keep(self, table: pa.Table, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of these rows for which the filter holds."""
        if self._filter is None or not len(rows):
            return rows
        holds = self._frame(table, rows).select(pl.sql_expr(self._filter).alias("holds"))["holds"]
        return rows[holds.fill_null(False).to_numpy()]

    def _frame(self, table: pa.Table, rows: NDArray[np.int64]) -> pl.DataFrame:
        """Return these rows of the comparable columns."""
        return frame_of(table.take(pa.array(rows)), self._kinds)

    def _empty(self) -> pl.DataFrame:
        return pl.DataFrame(
            {name: pl.Series([], dtype=DTYPES.get(kind, pl.String)) for name, kind in self._kinds.items()}
        )

    def _try_filter(self, condition: str) -> None:
        try:
            result = self._empty().select(pl.sql_expr(condition).alias("holds"))["holds"]
        except (pl.exceptions.PolarsError, ValueError) as error:
            rule = f"must be an SQL condition on {', '.join(self._kinds)}: {str(error).splitlines()[0]}"
            raise Refused("records.filter", condition, rule, "correct it") from None
        if result.dtype != pl.Boolean:
            rule = f"must be true or false for each example, and is {result.dtype}"
            raise Refused("records.filter", condition, rule, "write a comparison, such as age >= 18")


def frame_of(table: pa.Table, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Return the columns of these kinds as a frame, missing values as null."""
    frame = pl.DataFrame(pl.from_arrow(table.select(list(kinds))))
    return frame.with_columns(_nullable(name, kind) for name, kind in kinds.items())


def _nullable(name: str, kind: str) -> pl.Expr:
    column = pl.col(name)
    if kind == "number":
        return column.cast(pl.Float64).fill_nan(None)
    if kind == "time":
        return pl.when(column != NO_TIME).then(column).cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(name)
    return pl.when(column != "").then(column).cast(pl.String).alias(name)
