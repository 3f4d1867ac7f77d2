"""Transforms by themselves in numbers that Python computes: parts of times, sounds, tokens, missing numbers."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.reader import FORMAT, Reader, log_mel, texts
from tasks.reader.log_mel import FLOOR, decoded, mel_filters, resampled
from tasks.reader.numbers import filling, quantile
from tasks.reader.time_parts import names_of, on_circle, parts_of, time_parts
from tasks.reader.values import NO_TIME, Unusable
from tasks.snapshots.transforms.categories import most_frequent
from tasks.snapshots.transforms.function import Function, own_code
from tasks.snapshots.transforms.numbers import Standardise, ranks
from tasks.sources.features import Feature

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), timezones=st.just(UTC))
PARTS = ["year", "month", "day", "weekday", "hour"]


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@settings(max_examples=200, deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=9))
def test_parts_of_times_are_pythons_before_1970_and_at_leap_days_too(moments: list[datetime]) -> None:
    from tasks.snapshots.transforms.times import calendar

    edges = [
        datetime(1969, 12, 31, 23, tzinfo=UTC),
        datetime(2000, 2, 29, tzinfo=UTC),
        datetime(1900, 3, 1, tzinfo=UTC),
    ]
    every = [*moments, *edges]
    times = np.array([microseconds(moment) for moment in every], np.int64)
    expected = [[each.year, each.month, each.day, each.weekday(), each.hour] for each in every]
    assert parts_of(times, PARTS, cyclical=False).astype(int).tolist() == expected
    of_graph = calendar(times)  # its operations are those of NumPy too
    assert np.stack([of_graph[part] for part in PARTS], axis=1).tolist() == expected


def test_parts_that_come_again_are_places_on_a_circle() -> None:
    assert names_of(["year", "hour"], cyclical=True) == ["year", "hour_sin", "hour_cos"]
    assert names_of(["year", "hour"], cyclical=False) == ["year", "hour"]
    for part, begin, quarter in (("month", 1, 4), ("hour", 0, 6), ("weekday", 0, 1.75), ("day", 1, 8.75)):
        sine, cosine = on_circle(np.array([begin, quarter], np.float64), part)
        np.testing.assert_allclose([sine, cosine], [[0, 1], [1, 0]], atol=1e-12, err_msg=part)


def test_a_missing_time_is_filled_and_indicated() -> None:
    state = {"fill": [7.0], "parts": ["hour"], "cyclical": False, "indicator": True}
    times = np.array([microseconds(datetime(2024, 5, 31, 18, tzinfo=UTC)), NO_TIME], np.int64)
    assert time_parts(state, Path())(times).tolist() == [[18.0, 0.0], [7.0, 1.0]]
    assert time_parts(state | {"indicator": False}, Path())(times).tolist() == [[18.0], [7.0]]


def test_a_missing_number_is_filled_before_it_is_changed_and_indicated() -> None:
    state: dict[str, Any] = {"fill": 3.0, "shape": [], "indicator": True}
    given_values = np.array([1.0, np.nan], np.float32)
    assert filling(state, lambda values: values * 10)(given_values).tolist() == [[10.0, 0.0], [30.0, 1.0]]
    assert filling(state | {"indicator": False}, lambda values: values)(given_values).tolist() == [[1.0], [3.0]]
    of_arrays = filling({"fill": [1.0, 2.0], "shape": [2], "indicator": False}, lambda values: values)
    assert of_arrays(np.array([[np.nan, 5.0], [6.0, np.nan]], np.float32)).tolist() == [[1.0, 5.0], [6.0, 2.0]]


def test_a_number_outside_of_the_quantiles_has_the_rank_of_the_nearest() -> None:
    state: dict[str, Any] = {"values": [0.0, 10.0, 20.0], "levels": [0.0, 0.25, 1.0], "output": "uniform"}
    apply = quantile(state | {"fill": 5.0, "shape": [], "indicator": False}, Path())
    found = apply(np.array([-9.0, 0.0, 5.0, 10.0, 12.0, 20.0, 99.0, np.nan], np.float32))[:, 0]
    np.testing.assert_allclose(found, [0, 0, 0.125, 0.25, 0.4, 1, 1, 0.125], rtol=1e-6)
    values, levels = ranks(np.array([1.0, 1.0, 1.0, 2.0]), 4)
    assert values.tolist()[0] == 1.0 and levels[0] == pytest.approx((0 + 1 / 3 + 2 / 3) / 3), "the mean of its ranks"
    assert [each.tolist() for each in ranks(np.empty(0), 9)] == [[0.0], [0.5]]


def test_a_vocabulary_is_by_count_then_by_name() -> None:
    from collections import Counter

    counts = Counter({"b": 3, "a": 3, "c": 5, "d": 1, "e": 2})
    assert most_frequent(counts, 2, 9) == ["c", "a", "b", "e"] and most_frequent(counts, 1, 2) == ["c", "a"]


def test_words_and_tokens_are_cut_at_the_length_and_padded() -> None:
    state = {"values": ["the", "cat"], "length": 3, "lowercase": True, "dtype": "uint16"}
    found = texts.words(state, Path())([["The", "dog"], ["cat", "the", "cat", "the"], []])
    assert found.tolist() == [[2, 1, 0], [3, 2, 3], [0, 0, 0]]
    exact = texts.words(state | {"lowercase": False}, Path())([["The", "the"]])
    assert exact.tolist() == [[1, 2, 0]]
    octets = texts.tokens({"method": "bytes", "length": 4, "lowercase": True, "dtype": "uint16"}, Path())
    assert octets(["AB", "abcdef", "", "é"]).tolist() == [[98, 99, 0, 0], [98, 99, 100, 101], [0] * 4, [196, 170, 0, 0]]


def wav(samples: np.ndarray, rate: int = 8000) -> bytes:
    payload = io.BytesIO()
    soundfile.write(payload, samples, rate, format="WAV", subtype="FLOAT")
    return payload.getvalue()


def test_a_sound_is_the_mean_of_its_channels_cut_or_padded_to_its_length() -> None:
    stereo = np.stack([np.linspace(0, 0.5, 800), np.linspace(0, 0.1, 800)], axis=1).astype(np.float32)
    mean = stereo.astype(np.float64).mean(axis=1)
    np.testing.assert_allclose(decoded(0, wav(stereo), 0.05, 400), mean[:400], atol=1e-7)
    longer = decoded(0, wav(stereo), 0.2, 1600)
    np.testing.assert_allclose(longer[:800], mean, atol=1e-7)
    assert not longer[800:].any()
    with pytest.raises(Unusable, match="must be a whole sound file"):
        decoded(3, b"no sound", 0.1, 800)
    holes = stereo.copy()
    holes[3] = np.nan
    assert np.isfinite(decoded(0, wav(holes), 0.1, 800)).all()


@pytest.mark.parametrize("samples", [400, 800, 1600, 801, 1000])
def test_a_resampled_tone_is_the_same_tone(samples: int) -> None:
    tone = np.sin(2 * np.pi * 20 * np.arange(800) / 800)
    expected = np.sin(2 * np.pi * 20 * np.arange(samples) / samples)
    np.testing.assert_allclose(resampled(tone, samples), expected, atol=1e-9)


def test_filters_are_triangles_with_one_at_least_for_each_band() -> None:
    filters = mel_filters(12, 256, 8000)
    assert len(filters) == 12 and all(weights.size and (weights > 0).all() for _, weights in filters)
    assert all((weights <= 1).all() for _, weights in filters)
    peaks = [(low + int(np.argmax(weights))) * 8000 / 256 for low, weights in filters]
    assert peaks == sorted(peaks)
    mel = 2595 * np.log10(1 + 4000 / 700) * np.arange(1, 13) / 13
    np.testing.assert_allclose(peaks, 700 * (10 ** (mel / 2595) - 1), atol=8000 / 256)
    assert len(mel_filters(40, 64, 8000)) == 40, "more bands than bins"


def test_silence_is_the_floor_and_nothing_is_more_than_eight_decades_below_the_loudest() -> None:
    state = {"shape": [9, 4], "window": 64, "hop": 32, "samples": 320, "rate": 8000, "seconds": 0.04}
    apply = log_mel.log_mel(state, Path())
    floor = (np.log10(FLOOR) + 4) / 4
    tone = np.sin(2 * np.pi * 1000 * np.arange(320) / 8000).astype(np.float32)
    silent, sounding = apply([b"", wav(tone)])
    np.testing.assert_allclose(silent, np.full((9, 4), floor), rtol=1e-6)
    assert sounding.shape == (9, 4) and sounding.max() - sounding.min() <= 8 / 4 + 1e-6
    assert sounding.max() == pytest.approx((np.log10((64 / 4) ** 2) + 4) / 4, abs=0.25), "half a window's sum, squared"


def test_a_fill_is_a_number_of_float32_as_the_columns_are() -> None:
    """What stands for a missing number is the same in a snapshot, in its moments and in a graph."""
    config = Standardise(missing={"fill": 0.1})  # type: ignore[arg-type]
    fitted = config.fitter("x", Feature("number", "float32"), Path())
    fitted.add(np.array([np.nan, 1.0], np.float32), np.arange(2))
    made = fitted.fitted()
    assert made.state["fill"] == float(np.float32(0.1)) != 0.1
    assert made.feature["mean"][0] == (float(np.float32(0.1)) + 1) / 2


def test_a_description_of_another_format_is_not_read(tmp_path: Path) -> None:
    lists = {key: [] for key in ("columns", "classes", "targets", "layout", "missing")}
    description: dict[str, Any] = {**lists, "arrays": {}, "transforms": {}, "format": FORMAT}
    assert Reader(description, tmp_path)([]) == {}
    with pytest.raises(ValueError, match=f"format {FORMAT + 1}; this reader reads format {FORMAT}"):
        Reader({**description, "format": FORMAT + 1}, tmp_path)


def test_the_files_of_all_own_functions_are_kept(tmp_path: Path) -> None:
    for name in ("first", "second", "helper"):
        (tmp_path / f"{name}.py").write_text("import helper\n" if name == "second" else "")
    own = {name: Function(function=f"{name}:make", folder=str(tmp_path)) for name in ("first", "second")}
    files = own_code({"a": own["first"], "b": Standardise(), "c": own["second"]})
    assert files == {"functions/first.py": b"", "functions/helper.py": b"", "functions/second.py": b"import helper\n"}
    assert own_code({"b": Standardise()}) == {}
