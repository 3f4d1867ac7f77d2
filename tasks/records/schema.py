"""Rules of columns from a YAML file, checked on batches of rows by pandera."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from pydantic import ValidationError

from tasks.config.schema import ColumnRules, SchemaFile
from tasks.config.yaml_values import read_yaml
from tasks.errors import Refused

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
