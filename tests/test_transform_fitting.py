"""What transforms learn of the train split: in any batches the same, and of a known table the known figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Failed, Refused
from tasks.reader import cast
from tasks.reader.numbers import TAIL, normal
from tasks.snapshots.fitting import TransformConfig, fit, lay_out
from tasks.snapshots.transforms import Fitted, own_array
from tasks.snapshots.transforms.categories import Hash, Vocabulary
from tasks.snapshots.transforms.numbers import Bucketize, Keep, Log, Missing, Quantile, Standardise
from tasks.snapshots.transforms.statistics import ROWS, NumberSample, TextSample
from tasks.snapshots.transforms.texts import HashWords, Tokens, Words, fit_wordpiece
from tasks.snapshots.transforms.times import TimeParts
from tasks.sources.features import Feature
from tests.support.tables import applied, column_of, feature, table_of

NAN = float("nan")
Numbers = st.lists(st.floats(-1e6, 1e6, width=32) | st.just(NAN), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("column", "array"),
    [
        ("text", "text"),
        ("my text", "my_text"),
        ("image/encoded", "image_encoded"),
        ("price (€)", "price__3c131166"),
        ("_id", "column_id"),
        ("a.b-c", "a.b-c"),
    ],
)
def test_the_array_of_any_column_has_a_name_for_files_and_layers(column: str, array: str) -> None:
    assert own_array(column) == array
    with tf.name_scope(f"{own_array(column)}_embedding"):
        pass
    assert own_array("标题") != own_array("正文"), "a hash keeps them apart"


def fitted(kind: str, values: Sequence[Any], transform: TransformConfig, rows: int = 10_000, **more: Any) -> Fitted:
    """The transform of a column `x`, read `rows` at a time."""
    described = feature(kind, **more)
    table = table_of({"x": column_of(described, values)})
    parts = [table.slice(start, rows) for start in range(0, len(table), rows)]
    return fit({"x": transform}, {"x": described}, lambda names: parts if names else [])["x"]


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal, numbers up to a step of float32, in which a mean may be kept."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.isclose(one, other, rtol=2e-7, atol=1e-9)) if isinstance(one, float) else bool(one == other)


@settings(max_examples=60, deadline=None)
@given(Numbers, st.integers(1, 20), st.sampled_from([Standardise(), Log(), Keep(), Quantile(), Bucketize(buckets=4)]))
def test_numbers_are_learnt_alike_in_any_batches(values: list[float], rows: int, transform: TransformConfig) -> None:
    whole, parts = fitted("number", values, transform), fitted("number", values, transform, rows)
    assert same(whole.state, parts.state) and same(whole.feature, parts.feature)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["", "a", "b", "c d", "e"]), min_size=1, max_size=60), st.integers(1, 20))
def test_words_and_times_are_learnt_alike_in_any_batches(values: list[str], rows: int) -> None:
    times = cast.column([f"2024-0{1 + len(value)}-0{1 + ord(value[:1] or 'a') % 9}" for value in values], "time")
    for kind, column, transform in (
        ("category", values, Vocabulary()),
        ("text", values, Tokens(vocabulary=300, tokenizer_bytes=1000)),
        ("time", times, TimeParts()),
    ):
        whole, parts = fitted(kind, column, transform), fitted(kind, column, transform, rows)
        assert same(whole.state, parts.state) and same(whole.feature, parts.feature) and whole.files == parts.files


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("abc", max_size=2), max_size=60), st.integers(1, 4), st.integers(3, 6))
def test_a_vocabulary_has_the_most_frequent_categories(values: list[str], least: int, size: int) -> None:
    result = fitted("category", values, Vocabulary(min_count=least, size=size))
    counts = Counter(value for value in values if value)
    kept = result.state["values"]
    expected = sorted(counts, key=lambda value: (-counts[value], value))
    assert kept == [value for value in expected if counts[value] >= least][: size - 2]
    assert result.feature == {"names": ["x"], "sizes": [len(kept) + 2]}
    ids = applied(result, [*values, "never seen"])[:, 0]
    assert ids.tolist() == [0 if not v else kept.index(v) + 2 if v in kept else 1 for v in [*values, "never seen"]]


def test_a_vocabulary_of_too_many_categories_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.snapshots.transforms.categories.DISTINCT", 3)
    with pytest.raises(Failed, match="x has more than 3 different values.*kind: hash"):
        fitted("category", list("abcd"), Vocabulary())


@settings(max_examples=100, deadline=None)
@given(Numbers, st.sampled_from([2, 5, 1000]))
def test_ranks_ascend_with_the_numbers(values: list[float], quantiles: int) -> None:
    result = fitted("number", values, Quantile(output="uniform", quantiles=quantiles, missing=Missing(fill="median")))
    present = np.sort(np.array(values, np.float32)[~np.isnan(values)])
    ranks = applied(result, present)[:, 0]
    assert (np.diff(ranks) >= 0).all() and (ranks >= 0).all() and (ranks <= 1).all()
    if len(np.unique(present)) > 1:
        outside = applied(result, np.array([-1e9, 1e9], np.float32))[:, 0]
        np.testing.assert_array_equal(outside, [ranks[0], ranks[-1]])
        assert (ranks[present == present[0]] < ranks[-1]).all()


def test_ranks_of_known_numbers() -> None:
    values = np.random.default_rng(0).exponential(size=5000).astype(np.float32)
    uniform = applied(fitted("number", values, Quantile(output="uniform")), values)[:, 0]
    np.testing.assert_allclose(np.sort(uniform), np.linspace(0, 1, 5000), atol=1e-3)
    normals = applied(fitted("number", values, Quantile()), values)[:, 0]
    at = np.linspace(TAIL, 1 - TAIL, 1001)
    np.testing.assert_allclose(normal(at), scipy.stats.norm.ppf(at), rtol=1e-12, atol=1e-14)
    assert abs(normals.mean()) < 0.02 and abs(normals.std() - 1) < 0.02


def test_intervals_hold_about_equally_many() -> None:
    values = np.random.default_rng(1).lognormal(size=1000).astype(np.float32)
    result = fitted("number", values, Bucketize(buckets=4))
    assert np.bincount(applied(result, values)[:, 0]).tolist() == [0, 250, 250, 250, 250]
    assert result.feature["sizes"] == [5]
    repeated = fitted("number", [0.0] * 55 + [1.0] * 45, Bucketize(buckets=10))
    assert repeated.state["boundaries"] == [1.0] and repeated.feature["sizes"] == [3]
    given_boundaries = fitted("number", [], Bucketize(boundaries=(0.0, 1.5)))
    assert applied(given_boundaries, np.array([NAN, -1, 0, 1, 1.5, 9], np.float32))[:, 0].tolist() == [0, 1, 2, 2, 3, 3]


def test_what_stands_for_a_missing_number() -> None:
    values = [1.0, 2.0, NAN, 6.0]
    filled = {
        fill: applied(fitted("number", values, Standardise(missing=Missing(fill=fill))), np.array(values, np.float32))
        for fill in ("mean", "median", "zero", -1.0)
    }
    assert [array[2].tolist() for array in filled.values()] == [[3.0, 1.0], [2.0, 1.0], [0.0, 1.0], [-1.0, 1.0]]
    assert filled["mean"][0].tolist() == [1.0, 0.0], "the second one says whether it is missing"
    result = fitted("number", values, Standardise())
    assert result.feature == {"names": ["x", "x.missing"], "mean": [3.0, 0.0], "variance": [3.5, 1.0]}
    assert fitted("number", [1.0, 2.0], Standardise()).feature["names"] == ["x"], "nothing is missing"
    always = Standardise(missing=Missing(indicator=True))
    assert fitted("number", [1.0, 2.0], always).feature["names"] == ["x", "x.missing"]
    assert fitted("number", [NAN, NAN], Standardise()).feature["mean"] == [0.0, 0.0]


def test_mean_and_variance_are_those_after_the_logarithm() -> None:
    values = np.array([-3.0, 0.0, 5.0, 1e6], np.float32)
    result = fitted("number", values, Log())
    logs = np.sign(values) * np.log1p(np.abs(values.astype(np.float64)))
    np.testing.assert_allclose(applied(result, values)[:, 0], logs, rtol=1e-6)
    np.testing.assert_allclose(result.feature["mean"] + result.feature["variance"], [logs.mean(), logs.var()])
    with_missing = fitted("number", [*values, NAN], Log(missing=Missing(fill=100.0)))
    np.testing.assert_allclose(with_missing.feature["mean"], [[*logs, np.log(101)] @ np.full(5, 0.2), 0])


def test_a_constant_has_variance_one_and_a_far_away_one_its_own() -> None:
    assert fitted("number", [7.1] * 9, Standardise()).feature["variance"] == [1.0]
    near = np.float32([1e6, 1e6 + 0.0625])
    np.testing.assert_allclose(fitted("number", near, Standardise()).feature["variance"], [near.astype(float).var()])


def test_arrays_of_numbers_are_standardised_by_the_last_axis() -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    values[1, 2, 0] = NAN
    result = fitted("number", values, Standardise(), shape=(3, 2))
    mean = np.nanmean(values, axis=0)
    filled = np.where(np.isnan(values), mean, values)
    np.testing.assert_array_equal(applied(result, values), filled)
    assert result.array is None and result.feature["shape"] == [3, 2]
    np.testing.assert_allclose(result.feature["mean"], filled.mean((0, 1)))
    np.testing.assert_allclose(result.feature["variance"], filled.astype(float).var((0, 1)), rtol=1e-6)


def test_parts_of_a_time() -> None:
    times = cast.column(["2024-02-29T23:59:59.9", "1969-12-31T01:00+02:00", None], "time")
    result = fitted("time", times, TimeParts())
    parts = applied(result, times)
    assert parts[:2].tolist() == [[2024, 2, 29, 3, 23, 0], [1969, 12, 30, 1, 23, 0]]
    assert parts[2].tolist() == [1996.5, 7, 29.5, 2, 23, 1], "the means, and that it is missing"
    assert result.feature["names"] == [f"x.{part}" for part in ("year", "month", "day", "weekday", "hour", "missing")]
    circle = fitted("time", times, TimeParts(parts=("year", "month"), cyclical=True))
    assert circle.feature["names"] == ["x.year", "x.month_sin", "x.month_cos", "x.missing"]
    months = applied(circle, cast.column(["2024-12-01", "2024-01-01", "2024-06-01"], "time"))[:, 1:3]
    distance = np.linalg.norm(months[1] - months, axis=1)
    assert distance[0] < 0.6 < 1.9 < distance[2], "December is next to January"
    assert circle.feature["mean"][1:] == [0.0] * 3 and circle.feature["variance"][1:] == [1.0] * 3


def test_a_sample_of_numbers_is_bounded_and_of_all_rows() -> None:
    values = np.arange(5 * ROWS, dtype=np.float32)
    sample, other = NumberSample(), NumberSample()
    for each, size in ((sample, 1000), (other, 7777)):
        for start in range(0, len(values), size):
            each.add(values[start : start + size], np.arange(start, min(start + size, len(values))))
    assert len(sample.values) == ROWS and sample.values.tolist() == other.values.tolist()
    np.testing.assert_allclose(np.quantile(sample.values, [0.1, 0.5, 0.9]) / len(values), [0.1, 0.5, 0.9], atol=0.005)


def test_a_sample_of_texts_is_bounded_and_of_all_rows() -> None:
    sample = TextSample(10_000)
    for row in range(2000):
        sample.add([f"text {row}"], np.array([row]))
    rows = [int(text.split()[1]) for text in sample.texts]
    assert 100 < len(rows) < 200 and rows == sorted(rows)
    assert rows[0] < 200 and rows[-1] > 1800


def test_each_part_of_a_time_that_is_no_place_on_a_circle_is_standardised() -> None:
    """Year, weekday and hour have means of their own; of a cycle they are as they are."""
    times = cast.column(["2020-03-02T05:00", "2020-03-04T06:00", "2029-03-05T23:00", None], "time")
    plain = fitted("time", times, TimeParts(parts=("year", "weekday", "hour"), cyclical=False), 3)
    parts = np.array([[2020, 0, 5], [2020, 2, 6], [2029, 0, 23]], np.float64)
    filled = np.vstack([parts, parts.mean(axis=0).astype(np.float32)])
    assert plain.feature["names"] == ["x.year", "x.weekday", "x.hour", "x.missing"]
    np.testing.assert_allclose(plain.feature["mean"], [*filled.mean(axis=0), 0], rtol=1e-6)
    np.testing.assert_allclose(plain.feature["variance"], [*filled.var(axis=0), 1], rtol=1e-6)
    mixed = fitted("time", times[:3], TimeParts(parts=("hour", "year"), cyclical=True))
    assert mixed.feature["names"] == ["x.hour_sin", "x.hour_cos", "x.year"]
    assert (mixed.feature["mean"][:2], mixed.feature["variance"][:2]) == ([0, 0], [1, 1])
    np.testing.assert_allclose(mixed.feature["mean"][2], 2023, rtol=1e-9)


def test_one_text_is_no_more_than_the_sample() -> None:
    sample = TextSample(100)
    sample.add(["x" * 1000, "é" * 99], np.arange(2))
    assert max(map(len, sample.texts)) <= 100 and sum(map(len, sample.texts)) >= 99


def test_a_sample_is_the_same_in_any_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more rows than a sample has, read in tables of one, of seven, or all at once."""
    monkeypatch.setattr("tasks.snapshots.transforms.statistics.ROWS", 16)
    random = np.random.default_rng(5)
    numbers = np.cumsum(random.exponential(size=200)).tolist()
    texts = ["".join(random.choice(list("abcdefgh"), 12)) for _ in range(200)]
    median, few = Keep(missing=Missing(fill="median")), Tokens(vocabulary=300, length=8, tokenizer_bytes=1000)
    for kind, values, transform in (
        ("number", numbers, median),
        ("number", numbers, Quantile(quantiles=9)),
        ("number", numbers, Bucketize(buckets=4)),
        ("text", texts, few),
    ):
        whole, *parts = (fitted(kind, values, transform, rows) for rows in (200, 7, 1))
        assert all((part.state, part.files) == (whole.state, whole.files) for part in parts), transform.kind
    assert numbers[30] < fitted("number", numbers, median).state["fill"] < numbers[-30], "of rows from all over"
    low, _, high = fitted("number", numbers, Bucketize(buckets=4), 7).state["boundaries"]
    assert low < numbers[90] < numbers[110] < high


def test_words_of_a_vocabulary_are_frequent_and_as_many_as_there_is_room_for() -> None:
    rows = [["To", "be", "or"], ["not", "to"], [], ["Be", "TO", "or", "x"]]
    lower = fitted("words", rows, Words(length=3, min_count=2, vocabulary=5, lowercase=True), shape=(-1,))
    assert lower.state["values"] == ["to", "be", "or"] and lower.summary == {"size": 5, "words": 5, "rare": 2 / 9}
    few = fitted("words", rows, Words(length=3, min_count=2, vocabulary=4, lowercase=True), 1, shape=(-1,))
    assert few.state["values"] == ["to", "be"] and few.feature["vocabulary"] == 4
    assert applied(few, rows).tolist() == [[2, 3, 1], [1, 2, 0], [0, 0, 0], [3, 2, 1]]
    exact = fitted("words", rows, Words(length=2, min_count=2), shape=(-1,))
    assert exact.state["values"] == ["or"] and exact.summary["rare"] == 7 / 9


def test_what_is_learned_is_the_same_in_every_process() -> None:
    """Whatever the seeds of its hash tables: Python's and those of libraries."""
    command = [sys.executable, "-m", "tests.support.fitting"]
    started = [
        subprocess.Popen(command, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2", "random")
    ]
    first, *others = [json.loads(process.communicate()[0]) for process in started]
    assert len(first) == 10 and others == [first, first]


@pytest.mark.parametrize("vocabulary", [260, 300, 1000])
def test_a_wordpiece_keeps_the_frequent_characters_and_has_room_for_words(vocabulary: int) -> None:
    rare = [chr(0x1000 + number) * 2 for number in range(400)]
    texts = ["aab bba abba " * 9, *rare, "the the the"]
    pieces = json.loads(fit_wordpiece(texts, vocabulary))["model"]["vocab"]
    assert len(pieces) < vocabulary and {"[UNK]", "a", "##a", "b", "##b", "the", "abba"} <= pieces.keys()
    single = [piece for piece in pieces if len(piece.removeprefix("##")) == 1]
    assert len(single) <= (vocabulary - 1) // 2
    if vocabulary < 800:
        kept = sorted(piece for piece in single if piece >= "\u1000")
        assert kept == [chr(0x1000 + number) for number in range(len(kept))], "of equally frequent ones the first"


def test_tokens_are_padded_and_cut() -> None:
    texts = ["to be or not to be", "", "to be " * 50]
    for method in ("bpe", "wordpiece", "bytes"):
        more = {} if method == "bytes" else {"vocabulary": 300}
        result = fitted("text", texts, Tokens(method=method, length=40, **more))
        rows = applied(result, [*texts, "naïve \u2603"])
        assert rows.shape == (4, 40) and rows.dtype == np.uint16 and not rows[1].any()
        assert rows.max() < result.feature["vocabulary"] <= 300 and (rows[2] > 0).all()
        lengths = (rows > 0).sum(axis=1)
        assert (rows[0, : lengths[0]] > 0).all() and lengths[0] <= 18
        assert lengths[3] > 1, "what was never seen has tokens too"
    assert applied(fitted("text", [], Tokens(method="bytes", length=3)), ["é!"]).tolist() == [[0xC4, 0xAA, 0x22]]


def test_hashes_of_categories() -> None:
    ids = applied(fitted("category", [], Hash(buckets=50)), ["", "a", "b", "a"])[:, 0].tolist()
    assert ids == [0, 29, 19, 29], "of all machines and days the same; 0 is a missing one"


def test_words_are_counted_or_kept_in_order() -> None:
    [counts] = applied(fitted("text", [], HashWords(buckets=64)), ["One two, one."])
    assert counts.sum() == 3 and counts.max() == 2
    [ids] = applied(fitted("text", [], HashWords(buckets=64, output="ids", length=5)), ["One two, one."])
    assert ids[0] == ids[2] != ids[1] and ids[3:].tolist() == [0, 0] and counts[ids[0] - 1] == 2


@pytest.mark.parametrize(("buckets", "dtype"), [(2**16 - 1, "uint16"), (2**16, "uint32")])
def test_the_last_bucket_of_words_has_an_id_of_its_own(buckets: int, dtype: str) -> None:
    """Ids begin at 1: 65,536 buckets need a larger type than 65,535."""
    made = fitted("text", [], HashWords(buckets=buckets, output="ids", length=5))
    assert made.state["dtype"] == made.feature["dtype"] == dtype
    assert np.iinfo(dtype).max >= buckets


def test_two_columns_whose_arrays_have_one_name_are_refused() -> None:
    features = {name: Feature("text", "string") for name in ("a/b", "a_b")}
    transforms = {name: Tokens(method="bytes", length=4) for name in features}
    with pytest.raises(Refused, match="source.columns: a_b; another column's array is called a_b"):
        lay_out(features, fit(transforms, features, lambda names: []), {})
