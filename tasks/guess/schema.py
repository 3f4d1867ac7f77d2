"""Rules of columns from a sample of raw rows, for `millrace init --schema`: wide enough for rows that were not seen.

Numbers and lengths may be as far outside of what n rows showed as what they showed is wide: a tail that falls off
exponentially gets there only with about n² rows, while a wrong unit, a shifted column or a -999 gets there at once.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import one_line
from tasks.guess.column import CATEGORY, FEW_CLASSES, NUMBER, TEXT, TIME
from tasks.guess.found import Columns
from tasks.reader.cast import EPOCH, MICROSECOND
from tasks.records import column_types
from tasks.records.column_types import column_type
from tasks.sources.features import KEY, Feature

FEATURES: dict[str, Feature] = {feature.kind: feature for feature in (NUMBER, CATEGORY, TEXT, TIME)}

OLDEST = timedelta(days=-700_000)
"""Before 1970: the first century, as dates begin with the year 1."""

Rule = tuple[str, Any, str]
"""Name, value, and what was seen."""

HEAD = """\
# Rules of {name}, from {rows:,} rows; written by `millrace init --schema` as a starting point. Correct what you know.
#
# A row that breaks a rule goes to quarantine/ with its reason, within records.bad_budget. A missing value breaks only
# `nullable`. Other rules: matches (a regular expression), min_length.
columns:
"""


def schema_of(name: str, columns: Columns, sample: Mapping[str, pa.Array]) -> str:
    """Return the file of rules for a source's columns of one value, its key and label left out."""
    rows = max(map(len, sample.values()), default=0)
    lines = [HEAD.format(name=name, rows=rows)]
    for column, kind in columns.types.items():
        if kind not in FEATURES or column in (columns.key, columns.label, KEY):
            continue
        lines.append(f"  {one_line(json.dumps(column, ensure_ascii=False))}:\n")
        for rule, value, seen in rules_of(kind, sample[column]):
            lines.append(f"    {rule}: {one_line(json.dumps(value, ensure_ascii=False))}  # {seen}\n")
    return "".join(lines)


def rules_of(kind: str, raw: pa.Array) -> Iterator[Rule]:
    """Yield the rules of a column from raw values; those that are bad do not count."""
    feature = FEATURES[kind]
    typed = column_types.typed(feature, raw, 0)
    good = np.ones(len(raw), bool)
    good[list(typed.bad)] = False
    values = typed.values.filter(pa.array(good))
    missing = np.asarray(column_type(feature).missing(values))
    share = f"{missing.mean():.1%} are missing" if missing.any() else "none is missing"
    yield "nullable", bool(missing.any()), share
    present = values.filter(pa.array(~missing))
    if len(present):
        yield from {"number": _numbers, "category": _values, "text": _lengths, "time": _times}[kind](present)


def _numbers(values: pa.Array) -> Iterator[Rule]:
    numbers = np.asarray(values, np.float64)
    low, high = float(numbers.min()), float(numbers.max())
    margin = (high - low) or abs(low) or 1.0
    begin, end = _outward(low - margin, math.floor), _outward(high + margin, math.ceil)
    yield "min", max(begin, 0.0) if low >= 0 else begin, f"smallest: {low:g}"
    yield "max", min(end, 0.0) if low < 0 and high <= 0 else end, f"largest: {high:g}"


def _outward(value: float, rounded: Any) -> float:
    """Return a number of two digits, rounded by `math.floor` or `math.ceil`."""
    if not value:
        return 0.0
    digits = math.floor(math.log10(abs(value))) - 1
    return float(f"{rounded(value / 10.0**digits)}e{digits}")


def _values(values: pa.Array) -> Iterator[Rule]:
    """Yield the values where they are few and none was seen once only.

    By Good and Turing (Biometrika 40, 1953) the next row has a new value with about the share of rows whose value was
    seen once.
    """
    counts = Counter(values.to_pylist())
    if len(counts) <= FEW_CLASSES and min(counts.values()) > 1:
        yield "values", sorted(counts), f"each at least {min(counts.values()):,} times"


def _lengths(values: pa.Array) -> Iterator[Rule]:
    lengths = np.asarray(pc.utf8_length(values))
    low, high = int(lengths.min()), int(lengths.max())
    if low > 1:
        yield "min_length", low // 2, f"shortest: {low:,} characters"
    yield "max_length", int(_outward(2 * high - low or 1, math.ceil)), f"longest: {high:,} characters"


def _times(values: pa.Array) -> Iterator[Rule]:
    """Yield the earliest time; no latest one, which the next data would pass."""
    microseconds = np.asarray(values)
    low, high = int(microseconds.min()), int(microseconds.max())
    begin = EPOCH + max((2 * low - high) * MICROSECOND, OLDEST)
    yield (
        "min",
        begin.date().isoformat(),
        f"earliest: {(EPOCH + low * MICROSECOND).isoformat()}; the latest is left open",
    )
