"""Times: microseconds since 1970 in UTC; a missing one is `NO_TIME`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.reader.values import MISSING
from tasks.records.kinds import State, Typed, merge_by_key, number
from tasks.sources.encoding import Encoded, integer_entry
from tasks.sources.features import EPOCH, MICROSECOND, NO_TIME, Feature

TYPE = pa.int64()


def typed(feature: Feature, raw: pa.Array, max_pixels: int) -> Typed:
    """Accept timestamps, dates, and texts in ISO 8601; without an offset they are in UTC."""
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type):
        values, bad = _parsed(raw.to_pylist())
    elif pa.types.is_timestamp(raw.type) or pa.types.is_date(raw.type) or pa.types.is_null(raw.type):
        microseconds = raw.cast(pa.timestamp("us"), safe=False).cast(TYPE)
        values, bad = np.array(pc.fill_null(microseconds, NO_TIME)), {}
    else:
        values = np.full(len(raw), NO_TIME)
        bad = dict.fromkeys(range(len(raw)), f"{raw.type} is not a time; a time is a timestamp or ISO 8601")
    if feature.role == "time":
        bad = {**{int(row): "missing" for row in np.flatnonzero(values == NO_TIME)}, **bad}
    return Typed(pa.array(values, TYPE), bad)


def _parsed(texts: list[str | None]) -> tuple[NDArray[np.int64], dict[int, str]]:
    values, bad = np.full(len(texts), NO_TIME), {}
    for row, text in enumerate(texts):
        if text is None or (stripped := text.strip()) in MISSING:
            continue
        try:
            values[row] = microseconds(datetime.fromisoformat(stripped))
        except ValueError:
            bad[row] = f"{text!r} is not a time in ISO 8601"
    return values, bad


def microseconds(time: datetime) -> int:
    """Return the microseconds since 1970 of a time, which is in UTC where it has no offset."""
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def missing(feature: Feature, values: pa.Array) -> pa.Array:
    """Return which times are missing."""
    return pc.equal(values, NO_TIME)


def entry(name: str, feature: Feature, values: pa.Array) -> list[Encoded]:
    """Return an `int64_list` of one time."""
    return integer_entry(name, np.asarray(values).astype(np.int64))


def state(feature: Feature, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
    """Return count, missing values, and the earliest and latest time."""
    given = values.filter(pc.invert(missing(feature, values)))
    figures = {"count": len(given), "missing": len(values) - len(given)}
    if not len(given):
        return figures
    return {**figures, "min": pc.min(given).as_py(), "max": pc.max(given).as_py()}


merge = merge_by_key


def summary(feature: Feature, state: State) -> dict[str, Any]:
    """Return the state, times in ISO 8601."""
    ends: dict[str, Any] = {
        key: (EPOCH + state[key] * MICROSECOND).isoformat() for key in ("min", "max") if key in state
    }
    return {"count": state["count"], "missing": state["missing"], **ends}


def connector(feature: Feature) -> dict[str, Any]:
    """Describe a `Tensor` of one integer."""
    return number.connector(feature)
