"""Checks of typed rows: the rules of `records.schema_file`, and the condition `records.filter`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError

from tasks.config.yaml_values import read_yaml
from tasks.errors import Refused
from tasks.reader.values import NO_TIME
from tasks.records.config import ColumnRules, RecordsConfig, SchemaFile
from tasks.sources.features import Feature

FIELD = "records.schema_file"
RULES_VERSION = 2
"""Incremented when rows would break other rules, or be quarantined with other words."""
LISTED = 10
"""Values that a reason lists, at most."""


class Schema:
    """The rules of a file, for frames with the columns of `like`."""

    def __init__(self, path: Path, like: pl.DataFrame) -> None:
        """Read the file; raises `Refused` where it is no schema of these columns."""
        import pandera.polars as pa

        rules = _read(path)
        if unknown := sorted(set(rules) - set(like.columns)):
            rule = f"has rules for a column of one value: {', '.join(like.columns)}"
            raise Refused(f"{path}: columns.{unknown[0]}", "no such column", rule, "correct the name")
        columns = {
            name: pa.Column(None, list(_checks(path, name, rule, like.schema[name])), nullable=rule.nullable)
            for name, rule in rules.items()
        }
        self._schema = pa.DataFrameSchema(columns)

    def failures(self, frame: pl.DataFrame) -> dict[int, str]:
        """Return the rows that break a rule, each with its first reason."""
        from pandera.errors import SchemaErrors

        try:
            self._schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            reasons: dict[int, str] = {}
            for case in errors.failure_cases.sort("column", "check_number").iter_rows(named=True):
                row, name = case["index"], case["column"]
                value = frame[name][row]
                broken = "missing" if value is None else f"{_shown(value)}; {case['check']}"
                reasons.setdefault(row, f"{name}: {broken}")
            return reasons
        return {}


def schema_file(path: Path) -> tuple[str, str]:
    """Return what of a file of rules enters the digest of records: its setting with the version of the code, and its
    SHA-256; raises `Refused` where it cannot be read."""
    try:
        return f"{FIELD}, code version {RULES_VERSION}", hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> Refused:
    return Refused(FIELD, f"{path}: {error.strerror}", "must be a YAML file that can be read", "correct the path")


def _read(path: Path) -> dict[str, ColumnRules]:
    try:
        values = read_yaml(path.read_text(encoding="utf-8"))
        return SchemaFile.model_validate(values).columns
    except OSError as error:
        raise _unreadable(path, error) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refused(FIELD, f"{path}: {error}", "must be a YAML file", "fix that line") from None
    except ValidationError as error:
        first = error.errors()[0]
        where, known = ".".join(map(str, first["loc"])), ", ".join(ColumnRules.model_fields)
        rule = f"{first['msg'].lower()}; the rules of a column are {known}"
        raise Refused(f"{path}: {where}", first["input"], rule, "correct it") from None


def _checks(path: Path, name: str, rules: ColumnRules, dtype: pl.DataType) -> Iterator[Any]:
    """Yield pandera's checks for the rules of a column; raises `Refused` for a rule that its type does not have."""
    import pandera.polars as pa

    def misfit(rule: str, saw: Any, remedy: str) -> Refused:
        return Refused(f"{path}: columns.{name}.{rule}", saw, f"does not fit a column of {dtype}", remedy)

    bounds = (
        ("min", "must be at least", pa.Check.greater_than_or_equal_to),
        ("max", "must be at most", pa.Check.less_than_or_equal_to),
    )
    for rule, words, check in bounds:
        if (bound := getattr(rules, rule)) is None:
            continue
        if dtype == pl.String or isinstance(bound, str) != isinstance(dtype, pl.Datetime):
            raise misfit(rule, bound, "give a number of a number, a time of a time")
        limit = _time(path, name, rule, bound) if isinstance(bound, str) else float(bound)
        yield check(limit, error=f"{words} {_shown(limit)}")
    if rules.values:
        text = dtype == pl.String
        if isinstance(dtype, pl.Datetime) or any(isinstance(value, str) != text for value in rules.values):
            raise misfit("values", list(rules.values), "list texts of a text, numbers of a number")
        more = f" and {len(rules.values) - LISTED} more" if len(rules.values) > LISTED else ""
        yield pa.Check.isin(
            list(rules.values), error=f"must be one of {', '.join(map(_shown, rules.values[:LISTED]))}{more}"
        )
    lengths = {key: value for key in ("min_length", "max_length") if (value := getattr(rules, key)) is not None}
    if (lengths or rules.matches) and dtype != pl.String:
        raise misfit(next(iter(lengths), "matches"), rules.matches, "leave it out")
    if rules.matches is not None:
        try:
            re.compile(rules.matches)
        except re.error as error:
            rule = f"must be a regular expression: {error}"
            raise Refused(f"{path}: columns.{name}.matches", rules.matches, rule, "correct it") from None
        yield pa.Check.str_matches(rules.matches, error=f"must match {rules.matches!r}")
    if lengths:
        least, most = lengths.get("min_length"), lengths.get("max_length")
        limits = [f"at least {least}" if least is not None else "", f"at most {most}" if most is not None else ""]
        words = f"must have {' and '.join(filter(None, limits))} characters"
        yield pa.Check.str_length(least, most, error=words)


def _shown(value: Any) -> str:
    """Return a value as it is written in messages: a number as float32, a text in quotes, a time in ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(value) if isinstance(value, str) else str(np.float32(value)).removesuffix(".0")


def _time(path: Path, name: str, rule: str, text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        place = f"{path}: columns.{name}.{rule}"
        raise Refused(place, text, "must be a time in ISO 8601", "write it as 2024-06-01") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


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
