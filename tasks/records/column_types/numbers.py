"""Numbers and times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from tasks.reader.cast import EPOCH, MICROSECOND
from tasks.reader.values import LARGEST, MISSING, NO_TIME
from tasks.records.column_types import ColumnType, State, Typed
from tasks.records.column_types.categories import plain_classes
from tasks.sources.encoding import Encoded, binary_of, floats_entry, integer_entry
from tasks.sources.features import Feature
from tasks.sources.values import is_list, is_text

DECIMAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"

TOGETHER = "together"
"""Numbers that are as float32 what a smaller one is."""
WHOLE = 2.0**53
"""From here on not all whole numbers are float64."""

Floats = NDArray[np.float32]


class Number(ColumnType):
    """Numbers: float32, one or an array of a fixed shape; a missing one is NaN."""

    kinds = ("number",)

    def floats(self, values: pa.Array) -> Floats:
        """Return values as float32 [n, size], where size is that of the shape."""
        size = math.prod(self.feature.shape)
        flat = values.flatten() if self.feature.shape else values
        return np.asarray(flat.to_numpy(zero_copy_only=False), np.float32).reshape(-1, size)

    def array(self, values: Floats) -> pa.Array:
        """Return float32 [n, size] as an arrow array of the feature's type."""
        flat = pa.array(np.ascontiguousarray(values, np.float32).ravel())
        return pa.FixedSizeListArray.from_arrays(flat, math.prod(self.feature.shape)) if self.feature.shape else flat

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept numbers, booleans and decimal texts, and lists of as many of them as the shape has, or of labels."""
        if not self.feature.shape:
            numbers, bad = _scalars(raw)
            exact, together = _exact(raw, numbers), pa.array(fall_together(numbers))
            bad = {**bad, **self._unfit(numbers, bad)}
            return Typed(self.array(numbers.astype(np.float32)[:, None]), bad, {TOGETHER: together}, exact)
        raw, unknown = _marked(self.feature, raw) if self.feature.of_labels else (raw, {})
        flat, lengths = _flattened(raw)
        size = math.prod(self.feature.shape)
        bad = {int(row): f"{lengths[row]} values, not {size}" for row in np.flatnonzero(lengths != size)}
        numbers, unread = _scalars(flat)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        for position, reason in unread.items():
            bad.setdefault(int(owner[position]), reason)
        fits = np.zeros((len(lengths), size))
        fits[lengths == size] = numbers[(lengths == size)[owner]].reshape(-1, size)
        bad = {**self._unfit(fits, bad), **bad}
        return Typed(self.array(fits.astype(np.float32)), {**bad, **unknown})

    def _unfit(self, numbers: NDArray[np.float64], bad: Mapping[int, str]) -> dict[int, str]:
        """Return reasons of rows that are too large for float32, or missing where the role needs a number."""
        rows = numbers if numbers.ndim == 2 else numbers[:, None]
        reasons: dict[int, str] = {}
        with np.errstate(invalid="ignore"):
            large = np.flatnonzero((np.abs(rows) > LARGEST).any(axis=1))
            reasons |= {int(row): f"{rows[row].tolist()} is not a finite float32" for row in large}
            if self.feature.role in ("target", "output", "weight"):
                lacking = np.flatnonzero(np.isnan(rows).any(axis=1))
                reasons |= {int(row): "missing" for row in lacking if int(row) not in bad}
            if self.feature.role == "weight":
                low = np.flatnonzero((rows <= 0).any(axis=1))
                reasons |= {int(row): f"{rows[row][0]:g} is not above 0" for row in low}
        numbers[np.abs(numbers) > LARGEST] = 0
        return reasons

    def missing(self, values: pa.Array) -> pa.Array:
        """Return which values are NaN; of arrays, which have one."""
        return pa.array(np.isnan(self.floats(values)).any(axis=1))

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return a `float_list`."""
        return floats_entry(name, self.floats(values))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, missing, smallest, largest and mean value, and the sum of squared deviations."""
        rows = self.floats(values).astype(np.float64)
        numbers = rows[~np.isnan(rows)]
        figures = {"rows": len(rows), "missing": int(np.isnan(rows).any(axis=1).sum()), "count": int(numbers.size)}
        if TOGETHER in measured:
            figures[TOGETHER] = int(pc.sum(measured[TOGETHER]).as_py() or 0)
        if not numbers.size:
            return {**figures, "mean": 0.0}
        mean = float(numbers.mean())
        extent = {"min": float(numbers.min()), "max": float(numbers.max())}
        return {**figures, **extent, "mean": mean, "squares": float(((numbers - mean) ** 2).sum())}

    def merge(self, left: State, right: State) -> State:
        """Merge means and sums of squared deviations without cancellation (Chan, Golub and LeVeque, 1979)."""
        figures = {key: left[key] + right[key] for key in ("rows", "missing", "count", TOGETHER) if key in left}
        if not left["count"] or not right["count"]:
            return {**(left if left["count"] else right), **figures}
        difference = right["mean"] - left["mean"]
        share = right["count"] / figures["count"]
        return {
            **figures,
            "min": min(left["min"], right["min"]),
            "max": max(left["max"], right["max"]),
            "mean": left["mean"] + difference * share,
            "squares": left["squares"] + right["squares"] + difference * difference * left["count"] * share,
        }

    def summary(self, state: State) -> dict[str, Any]:
        """Return count (of values that are there), missing, extent, mean and standard deviation."""
        result = {"count": state["count"], "missing": state["missing"]}
        if state.get(TOGETHER):
            result[TOGETHER] = state[TOGETHER]
        if state["count"]:
            result |= {key: state[key] for key in ("min", "max", "mean")}
            result["std"] = math.sqrt(state["squares"] / state["count"])
        return result

    def connector(self) -> dict[str, Any]:
        """Describe a `Tensor`."""
        return _tensor(self.feature)


class Time(ColumnType):
    """Times: microseconds since 1970 in UTC; a missing one is `NO_TIME`."""

    kinds = ("time",)

    def typed(self, raw: pa.Array, max_pixels: int = 0) -> Typed:
        """Accept timestamps, dates, and texts in ISO 8601; without an offset they are in UTC."""
        if pa.types.is_dictionary(raw.type):
            raw = raw.dictionary_decode()
        if is_text(raw.type):
            values, bad = _parsed_times(raw.to_pylist())
        elif pa.types.is_timestamp(raw.type) or pa.types.is_date(raw.type) or pa.types.is_null(raw.type):
            microseconds = raw.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            values, bad = np.array(pc.fill_null(microseconds, NO_TIME)), {}
        else:
            values = np.full(len(raw), NO_TIME)
            bad = dict.fromkeys(range(len(raw)), f"{raw.type} is not a time; a time is a timestamp or ISO 8601")
        if self.feature.role == "time":
            bad = {**{int(row): "missing" for row in np.flatnonzero(values == NO_TIME)}, **bad}
        return Typed(pa.array(values, pa.int64()), bad)

    def missing(self, values: pa.Array) -> pa.Array:
        """Return which times are missing."""
        return pc.equal(values, NO_TIME)

    def entry(self, name: str, values: pa.Array) -> list[Encoded]:
        """Return an `int64_list` of one time."""
        return integer_entry(name, np.asarray(values).astype(np.int64))

    def state(self, values: pa.Array, measured: Mapping[str, pa.Array]) -> State:
        """Return count, missing values, and the earliest and latest time."""
        given = values.filter(pc.invert(self.missing(values)))
        figures = {"count": len(given), "missing": len(values) - len(given)}
        if not len(given):
            return figures
        return {**figures, "min": pc.min(given).as_py(), "max": pc.max(given).as_py()}

    def summary(self, state: State) -> dict[str, Any]:
        """Return the state, times in ISO 8601."""
        ends: dict[str, Any] = {
            key: (EPOCH + state[key] * MICROSECOND).isoformat() for key in ("min", "max") if key in state
        }
        return {"count": state["count"], "missing": state["missing"], **ends}

    def connector(self) -> dict[str, Any]:
        """Describe a `Tensor` of one integer."""
        return _tensor(self.feature)


def _exact(raw: pa.Array, numbers: NDArray[np.float64]) -> list[Encoded]:
    """Return float64 numbers as bytes, and those of more digits as texts too."""
    octets = binary_of(np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint8).reshape(-1, 8))
    with np.errstate(invalid="ignore"):
        if not (np.abs(numbers) >= WHOLE).any():
            return [octets]
    texts = pc.utf8_trim_whitespace(raw.cast(pa.string())) if not pa.types.is_floating(raw.type) else None
    return [octets] if texts is None else [octets, pc.fill_null(texts, "").cast(pa.large_binary())]


def fall_together(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which numbers are as float32 what a smaller one of them is, bool [n]; no number beyond float32 is."""
    order = np.argsort(numbers, kind="stable")
    with np.errstate(over="ignore"):
        ordered, rounded = numbers[order], numbers[order].astype(np.float32)
    differs = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(order)]
    same = np.concatenate(([False], (rounded[1:] == rounded[:-1]) & np.isfinite(rounded[1:])))[: len(order)]
    among = np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0))  # the first row of each number
    together = np.zeros(len(numbers), np.bool_)
    together[order] = (differs & same)[among]
    return together


def _scalars(raw: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Return float64 [n], NaN where a value is missing or bad, and the reasons of the bad ones."""
    if pa.types.is_dictionary(raw.type):
        raw = raw.dictionary_decode()
    if pa.types.is_null(raw.type):
        return np.full(len(raw), np.nan), {}
    if is_text(raw.type):
        return _parsed(raw)
    if pa.types.is_boolean(raw.type):
        raw = raw.cast(pa.int8())
    if not (pa.types.is_integer(raw.type) or pa.types.is_floating(raw.type) or pa.types.is_decimal(raw.type)):
        return np.full(len(raw), np.nan), dict.fromkeys(range(len(raw)), f"{raw.type} is not a number")
    numbers = raw.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.array(numbers), {}


def _parsed(raw: pa.Array) -> tuple[NDArray[np.float64], dict[int, str]]:
    texts = pl.Series(pl.from_arrow(raw)).str.strip_chars()
    numbers = texts.cast(pl.Float64, strict=False)
    empty = (texts.is_null() | texts.is_in(list(MISSING))).to_numpy()
    # Polars reads more than numbers: inf, nan, +nan.
    values = numbers.fill_null(math.nan).to_numpy().copy()
    odd = ~empty & ~np.isfinite(values)
    bad = {int(row): f"{texts[int(row)]!r} is not a number" for row in np.flatnonzero(odd)}
    values[odd | empty] = np.nan
    return values, bad


def _flattened(raw: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the scalars of nested lists, and how many each row has; a missing list has none."""
    lengths = np.ones(len(raw), np.int64)
    while is_list(raw.type):
        counts = np.asarray(pc.fill_null(pc.list_value_length(raw), 0)).astype(np.int64)
        ends, stops = np.concatenate(([0], np.cumsum(counts))), np.cumsum(lengths)
        lengths = ends[stops] - ends[stops - lengths]
        raw = pc.list_flatten(raw)
    return raw, lengths


def _tensor(feature: Feature) -> dict[str, Any]:
    """Return the description of a `Tensor`."""
    shape = {"dimensions": [str(size) for size in feature.shape]}
    tensor = {"shape": shape, "dtype": feature.dtype, "encoding": "none"}
    return {"pythonClassName": "tensor_feature.Tensor", "tensor": tensor}


def _parsed_times(texts: list[str | None]) -> tuple[NDArray[np.int64], dict[int, str]]:
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


def _marked(feature: Feature, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return for lists of labels 1 for each class that is in one, else 0, and the rows with other labels.

    An empty list has no label; a missing one is bad.
    """
    assert feature.names is not None
    if not (pt.is_list(raw.type) or pt.is_large_list(raw.type)):
        return raw, dict.fromkeys(range(len(raw)), f"{raw.type} is no list of labels")
    names = plain_classes(raw.flatten(), feature.renamed)
    owners, places = pc.list_parent_indices(raw), pc.index_in(names, pa.array(feature.names))
    known = np.asarray(places.is_valid())
    hot = np.zeros((len(raw), len(feature.names)), np.float32)
    rows = np.asarray(owners)
    hot[rows[known], np.asarray(places.drop_null())] = 1
    bad = {int(rows[at]): f"{names[int(at)].as_py()!r} is none of source.classes" for at in np.flatnonzero(~known)}
    bad |= {int(row): "missing" for row in np.flatnonzero(np.asarray(raw.is_null()))}
    flat = pa.array(hot.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, len(feature.names)), bad
