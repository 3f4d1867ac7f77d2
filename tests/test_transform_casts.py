"""The reader makes of a raw value, bit for bit, what the ingestion makes of it, and refuses what that refuses."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.reader import Unusable, cast
from tasks.reader.values import NO_TIME
from tasks.records.column_types import column_type
from tasks.sources.features import DTYPES, Feature

BLANK = st.text(" \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000", max_size=2)
NUMERIC = st.one_of(
    st.text("0123456789+-.eE_ ", max_size=8),
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.integers().map(str),
    st.sampled_from(["NA", "N/A", "nan", "NaN", "None", "inf", "-Infinity", "0x10", "1_000", "\uff11\uff12", "1e400"]),
    st.sampled_from(["3.4028234663852886e38", "3.4028235e38", "3.40282357e38", "1e-46", "7e-46", "- 1", "1,5", "+nan"]),
)
FLOATS = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.integers(-(2**60), 2**60).map(float),
    st.sampled_from([0.1, 1e-6, 1.5e-7, 9999999999.5, 1e10, 12345678901.5, 2.0**53, 2.0**53 - 1, -0.0]),
)


def ingested(kind: Any, raw: pa.Array, shape: tuple[int, ...] = ()) -> list[Any]:
    """What the ingestion makes of each value; None of one that it refuses."""
    feature = Feature(kind, DTYPES[kind], shape)
    typed = column_type(feature).typed(raw, 10**6)
    values = typed.values.to_pylist()
    return [None if row in typed.bad else value for row, value in enumerate(values)]


def read(kind: str, raw: list[Any], shape: tuple[int, ...] = ()) -> list[Any]:
    """The same of the reader."""
    result = []
    for value in raw:
        try:
            [typed] = cast.column([value], kind, shape)
            result.append(typed.ravel().tolist() if shape else typed if isinstance(typed, str) else typed.item())
        except Unusable:
            result.append(None)
    return result


def bits(values: list[Any]) -> list[Any]:
    """Values that are equal where their bits are; there is one NaN."""
    flat = [value if isinstance(value, list) else [value] for value in values]
    return [[np.float32(x).tobytes() if isinstance(x, float) and x == x else repr(x) for x in row] for row in flat]


def check(kind: str, raw: pa.Array, shape: tuple[int, ...] = (), values: list[Any] | None = None) -> None:
    given_values = raw.to_pylist() if values is None else values
    assert bits(read(kind, given_values, shape)) == bits(ingested(kind, raw, shape)), given_values


@settings(max_examples=400, deadline=None)
@given(st.lists(st.builds(lambda a, b, c: a + b + c, BLANK, NUMERIC, BLANK) | st.none(), max_size=6))
def test_numbers_in_text(values: list[str | None]) -> None:
    check("number", pa.array(values, pa.string()))


@settings(max_examples=200, deadline=None)
@given(st.lists(FLOATS | st.none(), max_size=6), st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=6))
def test_numbers_of_json(floats: list[float | None], integers: list[int | None]) -> None:
    check("number", pa.array(floats, pa.float64()))
    check("number", pa.array(integers, pa.int64()))
    check("number", pa.array([True, None, False]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4, max_value=10**9, min_value=-(10**9))))
def test_numbers_of_a_database(values: list[Any]) -> None:
    check("number", pa.array(values, pa.decimal128(18, 4)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(FLOATS | st.none(), min_size=3, max_size=5) | st.none(), min_size=1, max_size=4))
def test_arrays_of_numbers(values: list[list[float | None] | None]) -> None:
    check("number", pa.array(values, pa.list_(pa.float64())), (2, 2))


def test_arrays_are_nested_or_flat() -> None:
    nested = [[[1.5, 2.0], [3.0, None]], [[1.0], [2.0]]]
    check("number", pa.array(nested), (2, 2))
    check("number", pa.array([[1.0], None, [None]]), (1,))
    assert read("number", [np.arange(4).reshape(2, 2), "1 2 3 4"], (2, 2)) == [[0, 1, 2, 3], None]


@settings(max_examples=300, deadline=None)
@given(st.lists(FLOATS | st.none(), min_size=1, max_size=6), st.lists(st.text() | st.none(), max_size=6))
def test_categories(floats: list[float | None], texts: list[str | None]) -> None:
    check("category", pa.array(floats, pa.float64()))
    check("text", pa.array(floats, pa.float64()))
    for kind in ("category", "text"):
        check(kind, pa.array(texts, pa.string()))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.builds(lambda a, b, c: a + b + c, BLANK, NUMERIC, BLANK) | st.none(), max_size=6))
def test_categories_that_are_numbers(values: list[str | None]) -> None:
    check("category", pa.array(values, pa.string()))


def test_a_category_has_no_blanks_around_it_and_a_whole_number_no_fraction() -> None:
    """One missing value makes floats of a column of integers, perhaps in the file that is predicted alone."""
    given_values = ["1", "1.0", " 1. ", "yes ", "\u00a0yes", "3.10", "02134", "-2.00", "a b", " ", "1e0"]
    plain = ["1", "1", "1", "yes", "yes", "3.10", "02134", "-2", "a b", "", "1e0"]
    assert cast.column(given_values, "category", ()) == plain
    assert ingested("category", pa.array(given_values)) == plain
    assert cast.column([1.0, 1, np.float32(2)], "category", ()) == ["1", "1", "2"]


def test_categories_of_other_types() -> None:
    for kind in ("category", "text"):
        for values in ([True, None, False], [3, -5, None, 2**62], [datetime.date(2024, 5, 31), None]):
            check(kind, pa.array(values))
        check(kind, pa.array([b"caf\xc3\xa9", b"caf\xe9", None]))
    check("category", pa.array(["x" * 1024, "é" * 512, "é" * 513]))


TIMES = st.one_of(
    st.datetimes().map(str),
    st.datetimes(timezones=st.timezones()).map(datetime.datetime.isoformat),
    st.dates().map(str),
    st.sampled_from(["20240531", "2024-W22-5", "2024-05-31T18", "2024-05-31 18:30,5Z", "2024-05-31T18:30:00.1234567"]),
    st.sampled_from(["NA", "", "31.05.2024", "2024-13-01", "18:30", "yesterday"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.builds(lambda a, b, c: a + b + c, BLANK, TIMES, BLANK) | st.none(), max_size=5))
def test_times_in_text(values: list[str | None]) -> None:
    check("time", pa.array(values, pa.string()))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.datetimes() | st.none(), max_size=5), st.lists(st.dates() | st.none(), max_size=5))
def test_times_of_a_database(times: list[Any], dates: list[Any]) -> None:
    check("time", pa.array(times, pa.timestamp("us")))
    check("time", pa.array(dates, pa.date32()))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=5), st.sampled_from(["s", "ms", "us", "ns"]))
def test_times_of_numpy(numbers: list[int], unit: Any) -> None:
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    times = np.array([number // scale for number in numbers], f"datetime64[{unit}]")
    check("time", pa.array(times), values=list(times))


def test_times_of_numpy_in_steps_of_several_units() -> None:
    times = [np.datetime64(number, unit) for number in (25, -25) for unit in ("100ns", "3us", "2ms", "7000ps", "10s")]
    expected = [2, 75, 50_000, 0, 250_000_000, -2, -75, -50_000, 0, -250_000_000]
    assert cast.column(times, "time").tolist() == expected
    fine = [np.datetime64(number, unit) for number in (25, -25) for unit in ("10000000fs", "1000000000fs")]
    assert cast.column(fine, "time").tolist() == [0, 25, 0, -25]
    assert cast.column([np.datetime64(25 * 10**12, "as")], "time").tolist() == [25]


def test_blanks_around_a_number_do_not_count() -> None:
    assert read("number", ["\u00a012 ", "\t-1e3\n", "\u20281", "1 2", "\u200b1"]) == [12.0, -1000.0, 1.0, None, None]


def test_missing_and_impossible_times() -> None:
    aware = datetime.datetime(2024, 5, 31, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert read("time", [None, np.datetime64("NaT"), 17, aware]) == [NO_TIME, NO_TIME, None, 1717113600 * 10**6]


def test_a_value_that_cannot_be_used_is_named() -> None:
    with pytest.raises(Unusable) as caught:
        cast.column(["1", "two"], "number")
    assert (caught.value.row, caught.value.saw) == (1, "'two'") and "decimal number" in caught.value.rule


def test_cells_that_mean_missing_are_those_of_the_source() -> None:
    assert cast.column(["?", "a", ""], "category", (), {"?"}) == ["", "a", ""]
    assert np.isnan(cast.column(["-999", "-99"], "number", (), {"-999"})).tolist() == [True, False]
