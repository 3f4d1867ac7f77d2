"""The columns of records as the page shows them: the profile of each, and times and durations as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from tasks.artifacts import Artifact
from tasks.reader.cast import EPOCH, MICROSECOND
from tasks.reader.values import NO_TIME
from tasks.view import charts

NO_DATE = date(1900, 1, 1)
"""The date of a time that has none: Python reads 10:30 so."""

ROUGH = 1e-5
"""Share of a time by which the profile's quantiles may be off: they have six digits."""


@dataclass(frozen=True)
class Column:
    """The profile of a column: a picture, quantiles or values, and its association with what is predicted."""

    name: str
    kind: str
    missing: str
    picture: str
    middle: str
    association: float | None


def profiled(records: Artifact) -> list[Column]:
    """Return the profile of each column, those with the closest association first."""
    statistics = records.manifest["statistics"]
    columns, train = statistics.get("profile", {}).get("columns", {}), statistics["splits"].get("train", {})
    kinds = {name: feature["kind"] for name, feature in records.manifest["features"].items()}
    return [
        Column(
            name,
            kinds[name],
            missing(train.get(name, {})),
            charts.histogram(column["histogram"]["shares"]),
            middle(column, kinds[name], train.get(name, {})),
            column.get("association"),
        )
        for name, column in sorted(columns.items(), key=lambda item: -item[1].get("association", 1.1))
    ]


def missing(statistics: Mapping[str, Any]) -> str:
    """Return the share of missing values; empty where none is missing."""
    number = statistics.get("missing", 0)
    rows = number + statistics["count"] if "mean" in statistics else statistics.get("count", 0)
    return f"{number / rows:.1%}" if number and rows else ""


def middle(column: Mapping[str, Any], kind: str = "number", statistics: Mapping[str, Any] | None = None) -> str:
    """Return the median with the middle half of train, or the most frequent values; of texts it is of their length."""
    if quantiles := column.get("quantiles", {}).get("train"):
        low, median, high = quantiles[2:5]
        if kind == "time":
            return _times(low, median, high, statistics or {})
        if kind == "text":
            return f"{median:,.0f} characters ({low:,.0f} to {high:,.0f})"
        return f"{median:.4g} ({low:.4g} to {high:.4g})"
    values = column["histogram"].get("values", [])
    return ", ".join(values[:3]) + (", …" if len(values) > 3 else "")


def _times(low: float, median: float, high: float, statistics: Mapping[str, Any]) -> str:
    """Return the middle half as dates; where its quantiles are too rough for that, all of the range."""
    if high - low > 100 * ROUGH * max(abs(low), abs(high)):
        first, half, last = (moment(round(each))[:10] for each in (low, median, high))
        return f"{half} ({first} to {last})"
    return span(statistics)


def span(statistics: Mapping[str, Any]) -> str:
    """Return the first and the last time; empty without any."""
    ends = [datetime.fromisoformat(statistics[end]) for end in ("min", "max") if statistics.get(end)]
    return " to ".join(map(written, ends))


def moment(microseconds: int) -> str:
    """Return a time of records, microseconds since 1970 in UTC, as people write it; `missing` for none."""
    return "missing" if microseconds == NO_TIME else written(EPOCH + microseconds * MICROSECOND)


def written(time: datetime) -> str:
    """Return a time as text: midnight is a date, and a time on `NO_DATE` has no date."""
    time = time.astimezone(UTC) if time.tzinfo else time
    hours = time.strftime("%H:%M:%S") + (f".{time.microsecond:06d}".rstrip("0") if time.microsecond else "")
    if time.date() == NO_DATE:
        return hours
    return f"{time:%Y-%m-%d}" if hours == "00:00:00" else f"{time:%Y-%m-%d} {hours}"
