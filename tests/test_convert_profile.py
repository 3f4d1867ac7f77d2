"""The profile of columns in numbers: associations, histograms, and what is suspicious at the edge of each rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.reader.values import NO_TIME
from tasks.records import profile as profiled
from tasks.records.profile import (
    SAMPLE,
    TEST,
    TRAIN,
    _difference,
    _histogram,
    _quantiles,
    _sample,
    _values,
    association,
)
from tasks.sources.features import Feature
from tasks.sources.hashes import SPACE

NUMBERS = np.random.default_rng(3).normal(size=400)


def test_two_numbers_are_associated_by_the_size_of_their_correlation() -> None:
    noise = np.random.default_rng(4).normal(size=400)
    assert association(NUMBERS, -2 * NUMBERS + 3) == pytest.approx(1.0)
    assert association(NUMBERS, NUMBERS + noise) == pytest.approx(abs(np.corrcoef(NUMBERS, NUMBERS + noise)[0, 1]))
    assert association(NUMBERS, np.full(400, 2.0)) == 0.0
    some = np.where(np.arange(400) < 397, np.nan, NUMBERS)
    assert association(some, NUMBERS) == pytest.approx(1.0), "where both are present"
    assert association(some[:399], NUMBERS[:399]) == 0.0, "two rows tell nothing"


def test_a_number_is_associated_with_groups_by_the_share_of_its_variance_between_them() -> None:
    groups = np.array(["a", "b", "b", "b"] * 100)
    shifted = NUMBERS + (groups == "b") * 2
    means = {name: shifted[groups == name].mean() for name in "ab"}
    between = sum((groups == name).sum() * (mean - shifted.mean()) ** 2 for name, mean in means.items())
    expected = np.sqrt(between / ((shifted - shifted.mean()) ** 2).sum())
    assert association(shifted, groups) == pytest.approx(expected) == association(groups, shifted)
    assert association((groups == "b").astype(float), groups) == pytest.approx(1.0)
    assert association(NUMBERS, np.arange(400).astype(str)) == 0.0, "a group for each row tells any number"
    assert association(shifted, np.where(groups == "b", "", "a")) < 1e-9, "an empty category is missing"


def test_two_categories_are_associated_by_cramers_v_without_its_bias() -> None:
    one = np.array(["a", "b", "c"] * 100)
    assert association(one, np.char.add(one, "x")) == pytest.approx(1.0, abs=1e-6)
    by_chance = np.random.default_rng(5).choice(["x", "y", "z"], 300)
    assert association(one, by_chance) < 0.12
    assert association(one, np.full(300, "same")) == 0.0
    # 40, 10 / 10, 40 of two values: phi^2 is 0.36, less 1 / 99
    table = np.array(["a"] * 50 + ["b"] * 50), np.array(["x"] * 40 + ["y"] * 10 + ["x"] * 10 + ["y"] * 40)
    assert association(*table) == pytest.approx(np.sqrt((0.36 - 1 / 99) / (1 - 1 / 99)))


def test_categories_of_different_numbers_of_values_are_associated_by_the_smaller() -> None:
    counts = np.array([[30, 10, 5], [5, 10, 40]])
    left, right = (np.repeat(np.array(list(names)), counts.ravel()) for names in ("aaabbb", "xyzxyz"))
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / 100
    phi = ((counts - expected) ** 2 / expected).sum() / 100
    made = np.sqrt((phi - 2 / 99) / (1 - 1 / 99))  # of two values and three
    assert association(left, right) == pytest.approx(made) == association(right, left)


def test_shares_of_a_histogram_are_of_all_rows_of_their_split() -> None:
    train = np.concatenate([np.arange(1000.0), [np.nan] * 1000])
    made = _histogram({TRAIN: train, TEST: np.array([-1e9, 500.0, 1e9, np.nan])})
    edges, shares = np.array(made["edges"]), made["shares"]
    assert len(edges) == 21 and edges[[0, -1]] == pytest.approx(np.quantile(np.arange(1000), [0.005, 0.995]))
    assert sum(shares[TRAIN]) == pytest.approx(0.5), "the missing ones are in no bin"
    assert shares[TEST][0] == shares[TEST][-1] == 0.25, "what lies outside is in the first and the last"
    same = _histogram({TRAIN: np.full(3, 7.0)})
    assert same["edges"][0] == 6.5 and same["edges"][-1] == 7.5
    words = _histogram({TRAIN: np.array(["b", "a", "b", "", "c", "a"]), TEST: np.array(["b", "z"])})
    assert words == {"values": ["a", "b", "c"], "shares": {TRAIN: [2 / 6, 2 / 6, 1 / 6], TEST: [0.0, 0.5, 0.0]}}
    assert _quantiles(np.array([np.nan, 1.0, 3.0]))[3] == 2.0 and _quantiles(np.array([np.nan])) == []


def test_values_of_a_column_are_numbers_lengths_or_words() -> None:
    def of(kind: Any, values: pa.Array) -> list[Any]:
        return _values(Feature(kind, "x"), pa.chunked_array([values])).tolist()

    assert of("text", pa.array(["né", ""], pa.large_string())) == [2.0, 0.0]
    assert of("category", pa.array(["a", ""])) == ["a", ""]
    assert np.isnan(of("time", pa.array([NO_TIME, 5]))[0]) and of("time", pa.array([NO_TIME, 5]))[1] == 5.0


class FakeSpills:
    """Spills whose rows are counted, not read."""

    splits, numbers = [TEST, TRAIN], [0, 1]

    def __init__(self, count: int) -> None:
        self.counts, self.asked = {TEST: 1, TRAIN: count}, list[tuple[int, int, int, int]]()

    def slice(self, *where: int) -> pa.Table:
        self.asked.append(where)
        return pa.table({"x": [1]})


def test_the_sample_of_a_split_is_its_lowest_places() -> None:
    small, large = FakeSpills(SAMPLE), FakeSpills(4 * SAMPLE)
    for runs, high in ((small, SPACE), (large, SPACE // 4)):
        assert _sample(runs, TRAIN).num_rows == 2  # type: ignore[arg-type]
        assert runs.asked == [(0, 1, 0, high), (1, 1, 0, high)]


FEATURES = {
    "size": Feature("number", "float32"),
    "colour": Feature("category", "string"),
    "label": Feature("label", "int64", role="label", classes=("a", "b")),
}


def test_what_names_rows_and_tells_the_label_is_suspicious() -> None:
    """Patients in train and in test, and rows that are numbered in the order of the label; not what differs in each."""
    random = np.random.default_rng(1)
    patient = random.integers(0, 60, 480).astype(float)
    label = np.array(["ill", "well"], object)[(patient % 2).astype(int)]
    split = random.random(480) < 0.7

    def found(values: Any, outcome: Any, association: float = 0.1) -> list[str]:
        of_splits = {"train": values[split], "test": values[~split]}
        return list(profiled._of_rows("x", of_splits, {"train": outcome[split]}, association))

    [line] = found(patient, label)
    assert line.startswith("x: 100% of the rows of a value have one label") and "make it source.group" in line
    assert found(patient, random.permutation(label)) == []
    assert found(random.integers(0, 5, 480).astype(float), label) == [], "few values"
    numbers = np.argsort(np.argsort(label, kind="stable")).astype(float)
    assert found(numbers, label, 0.87) == [
        "x numbers the rows, and tells what is predicted (0.87): they are in its order"
    ]
    assert found(numbers * 7.0, label, 0.87) == [] == found(numbers, label, 0.2)


def suspicions(size: Any, colour: Any, counts: tuple[int, int] = (50, 50)) -> list[str]:
    """What is suspicious of a hundred rows."""
    label = np.array(["a"] * 50 + ["b"] * 50)
    values = {
        "size": {TRAIN: np.asarray(size, np.float64)},
        "colour": {TRAIN: np.asarray(colour)},
        "label": {TRAIN: label},
    }
    columns = {
        name: {"association": association(of_splits[TRAIN], label)}
        for name, of_splits in values.items()
        if name != "label"
    }
    states = {TRAIN: {"label": {"classes": {"a": counts[0], "b": counts[1]}}}}
    return list(profiled._suspicions(FEATURES, values, columns, states, ["label"]))


def test_what_of_the_inputs_is_suspicious_is_said() -> None:
    fine = np.random.default_rng(6).normal(size=100), np.random.default_rng(7).choice(["x", "y"], 100)
    assert suspicions(*fine) == []
    much = np.where(np.arange(100) < 40, np.nan, fine[0])
    assert suspicions(much, fine[1]) == ["size: 40% are missing in train"]
    assert suspicions(np.where(np.arange(100) < 39, np.nan, fine[0]), fine[1]) == []
    assert suspicions(np.full(100, 3.0), fine[1]) == ["size: all values in train are equal"]
    told = suspicions(fine[0], ["x"] * 50 + ["y"] * 50)
    assert told == ["colour tells label exactly; it may not be known when a prediction is made"]
    assert suspicions(*fine, counts=(9, 10)) == ["class a of label: 9 examples in train"]
    assert suspicions(*fine, counts=(1, 10)) == ["class a of label: 1 example in train"]


def test_splits_differ_where_the_distance_is_large_and_no_chance() -> None:
    draws = np.random.default_rng(8)
    one, other = draws.normal(size=500), draws.normal(size=500)
    assert _difference(one, other, 3) == "" and _difference(one, other[:9] + 9, 3) == "", "few rows tell nothing"
    assert _difference(one, other + 1, 3).startswith("Kolmogorov-Smirnov distance 0.")
    words, same = draws.choice(["a", "b"], 500), draws.choice(["a", "b"], 500)
    assert _difference(words, same, 3) == ""
    assert _difference(np.array(["a", "b"] * 250), np.array(["a"] * 400 + ["b"] * 100), 3) == "a: 50% and 80%"
    assert _difference(np.full(50, "a"), np.full(50, "a"), 3) == ""


def test_of_many_columns_a_difference_must_be_less_by_chance() -> None:
    """The first is by chance once in 2,200, the second once in 2,700: less than once in 1,000, not in 3,000."""
    grid = np.arange(300) / 300
    words = [np.array(["a"] * share + ["b"] * (count - share)) for share, count in ((200, 400), (100, 150))]
    for pair in ((grid, grid + 0.166), words):
        assert _difference(*pair, 1) and _difference(*pair, 3) == ""
    assert _difference(*words, 1) in ("a: 50% and 67%", "b: 50% and 33%"), "shares of each split, however large"


class Tables:
    """Two runs with the rows of each split in equal parts."""

    numbers = [0, 1]

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.tables, self.splits = tables, sorted(tables)
        self.counts = {split: table.num_rows for split, table in tables.items()}

    def slice(self, run: int, split: int, low: int, high: int) -> pa.Table:
        table = self.tables[self.splits[split]]
        half = table.num_rows // 2
        return table.slice(0, half) if run == 0 else table.slice(half)


def test_every_column_that_can_be_shown_is_and_compared_with_what_is_predicted() -> None:
    draws = np.random.default_rng(9)

    def table(rows: int) -> pa.Table:
        price = np.arange(rows, dtype=np.float32) ** 2
        return pa.table(
            {
                "price": price,
                "size": (price + draws.normal(size=rows) * rows * 4).astype(np.float32),
                "when": np.arange(rows) * 10**6,
                "note": pa.array(["x" * (each % 5) for each in range(rows)], pa.large_string()),
                "colour": pa.array(["ab"[each > 5] for each in range(rows)]),
                "photo": pa.array([b"png"] * rows, pa.large_binary()),
                "many": pa.array([[1.0, 2.0]] * rows),
                "name": pa.array([str(each) for each in range(rows)]),
            }
        )

    features = {
        "price": Feature("number", "float32", role="target"),
        "size": Feature("number", "float32"),
        "when": Feature("time", "int64"),
        "note": Feature("text", "string"),
        "colour": Feature("category", "string"),
        "photo": Feature("image", "uint8", (-1, -1, 3)),
        "many": Feature("number", "float32", (2,)),
        "name": Feature("category", "string", role="key"),
    }
    tables = {TRAIN: table(40), TEST: table(11)}
    made = profiled.profile(Tables(tables), features, {})  # type: ignore[arg-type]
    assert made["rows"] == {TEST: 11, TRAIN: 40}
    columns = made["columns"]
    assert set(columns) == {"price", "size", "when", "note", "colour"}
    assert {name for name, each in columns.items() if "association" not in each} == {"price"}
    assert {name for name, each in columns.items() if "quantiles" not in each} == {"colour"}
    train = tables[TRAIN]
    assert columns["size"]["association"] == pytest.approx(
        abs(np.corrcoef(train["size"], train["price"])[0, 1]), rel=1e-4
    )
    assert columns["when"]["association"] > 0.9 and columns["colour"]["association"] > 0.4
    assert [columns["price"]["quantiles"][split][3] for split in (TRAIN, TEST)] == [380.5, 25.0]
