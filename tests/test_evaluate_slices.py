"""Slices of columns and conditions, what is refused, and the worst slices: found where they are, rarely by chance."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from flows.preflight import check_source
from tasks.config.compose import validate
from tasks.errors import Refused
from tasks.evaluation import columns, worst_slices
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.fairness import Rate, compare
from tasks.evaluation.metrics import Means, Metric, Share, mean
from tasks.evaluation.multiple_testing import holm
from tasks.sources.features import Feature

FEATURES = {
    "age": Feature("number", "float32"),
    "country": Feature("category", "string"),
    "seen": Feature("time", "int64"),
    "note": Feature("text", "string"),
    "photo": Feature("image", "uint8", (-1, -1, 3)),
    "label": Feature("label", "int64", role="label", classes=("a", "b")),
}
SHARE = Share(lambda values: values)
MEAN = Means(lambda values: values, mean)


def frame(count: int, seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    age = random.uniform(0, 100, count)
    return pl.DataFrame(
        {
            "age": pl.Series(np.where(random.random(count) < 0.1, np.nan, age)).fill_nan(None),
            "country": random.choice(["DE", "FR", "IT", "US"], count),
            "seen": [datetime(2026, 1 + int(month), 1) for month in random.integers(0, 12, count)],
            "note": ["n" * int(length) for length in random.integers(1, 9, count)],
            "label": random.choice(["a", "b"], count),
        }
    )


@pytest.mark.parametrize(
    ("slice_", "says"),
    [
        ("contry", r"evaluate.slices: contry; the columns are age, country.*did you mean country\?"),
        ("aeg > 3 and country == 'DE'", r"evaluate.slices: aeg; .*did you mean age\?"),
        ("age >", "must be a column or an SQL condition"),
        ("age + 1", "must be true or false for each example, and is Float64"),
        ("photo", "needs one number, category, label or time, not image"),
        ("note", r"not text; use a condition, such as LENGTH\(note\) > 100"),
        ("age > 'x' + 1", "evaluate.slices: age > 'x'"),
    ],
)
def test_what_is_no_slice_is_refused_with_the_nearest(slice_: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        columns.check(FEATURES, EvaluateConfig(slices=(slice_,)))


def test_the_worst_slices_need_columns_and_enough_examples() -> None:
    image = {name: FEATURES[name] for name in ("photo", "note", "label")}
    with pytest.raises(Refused, match="evaluate.find_slices: True; conditions are on numbers"):
        columns.check(image, EvaluateConfig(find_slices=True))
    few = worst_slices.find(frame(30), FEATURES, SHARE, np.ones((30, 1)), 1, 5, 100)
    assert few["looked_at"] == 0 and few["slices"] == []


def test_a_group_that_is_no_column_is_refused() -> None:
    with pytest.raises(Refused, match=r"evaluate.groups: countries; .*did you mean country\?"):
        columns.check(FEATURES, EvaluateConfig(groups="countries"))


def test_a_run_refuses_a_slice_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,label\n1,a\n2,b\n")
    source = {"kind": "csv", "path": str(tmp_path / "rows.csv"), "label": "label"}
    source["columns"] = {"age": "number", "label": "category"}  # type: ignore[assignment]
    whole = {"name": "n", "source": source, "snapshot": {"kind": "table"}, "train": {"steps": 1}}
    for evaluate, says in (
        ({"slices": ["agge > 1"]}, "evaluate.slices: agge; the columns are age"),
        ({"robustness": ["typos"]}, r"evaluate.robustness: typos; changes text, and the inputs are age"),
        ({"groups": "land"}, "evaluate.groups: land"),
    ):
        with pytest.raises(Refused, match=says):
            check_source("training", validate({**whole, "evaluate": evaluate}))


def test_slices_are_values_quartiles_and_conditions() -> None:
    of = frame(400)
    config = EvaluateConfig(slices=("country", "age", "seen", "LENGTH(note) > 4 and age > 50"))
    masks = columns.of_config(of, FEATURES, config)
    assert sum(masks[f"country = {name}"].sum() for name in ("DE", "FR", "IT", "US")) == 400
    age = of["age"].to_numpy()
    assert (masks["age missing"] == np.isnan(age)).all()
    quarters = [mask for name, mask in masks.items() if name.startswith("age ") and " to " in name]
    assert len(quarters) == 4 and (np.sum(quarters, axis=0) == ~np.isnan(age)).all()
    assert max(quarter.sum() for quarter in quarters) - min(quarter.sum() for quarter in quarters) <= 2
    assert len([name for name in masks if name.startswith("seen 2026-01-01 00:00 to ")]) == 1
    length = np.array([len(note) for note in of["note"]])
    assert (masks["LENGTH(note) > 4 and age > 50"] == ((length > 4) & (age > 50))).all()
    assert columns.needed(FEATURES, config) == ["age", "country", "seen", "note"]


def found(seed: int, metric: Metric, spoil: bool, count: int = 1500) -> dict[str, Any]:
    """The worst slices of random mistakes (or losses), which are more frequent among the old in FR if `spoil`."""
    random = np.random.default_rng(1000 + seed)
    of = frame(count, seed)
    bad = (of["age"].fill_null(0).to_numpy() > 75) & (of["country"] == "FR").to_numpy() & spoil
    if metric.share:
        values = (random.random(count) > np.where(bad, 0.45, 0.1)).astype(np.float64)
        return worst_slices.find(of, FEATURES, metric, values[:, None], 1, 5, 100)
    values = random.gamma(2, np.where(bad, 2.0, 1.0))
    return worst_slices.find(of, FEATURES, metric, values[:, None], -1, 5, 100)


@pytest.mark.parametrize("metric", [SHARE, MEAN], ids=["share", "mean"])
def test_a_planted_slice_is_the_worst_and_chance_finds_none_in_95_of_100(metric: Metric) -> None:
    worst = found(0, metric, spoil=True)["slices"][0]
    assert worst["beyond_chance"] and worst["slice"].startswith("age 7") and "country = FR" in worst["slice"]
    assert worst["low"] <= worst["value"] <= worst["high"]
    by_chance = sum(found(seed, metric, spoil=False)["slices"][0]["beyond_chance"] for seed in range(60))
    assert by_chance <= 7, "one of twenty, and three standard deviations"


def test_each_slice_is_tested_against_the_others_and_counted() -> None:
    of, random = frame(1500), np.random.default_rng(1)
    values = (random.random(1500) > 0.2).astype(np.float64)
    one = worst_slices.find(of, FEATURES, SHARE, values[:, None], 1, 10_000, 100)
    singles = {row["slice"]: row for row in one["slices"] if " and " not in row["slice"]}
    assert min(row["p_value"] for row in one["slices"]) > 0.05
    # 4 countries, 4 quartiles of age and missing, 4 of the time; and pairs of them on two columns
    assert len(singles) == 13 and 13 < one["looked_at"] <= 13 + 4 * 5 + 4 * 4 + 5 * 4
    alone = worst_slices.find(of, {"country": FEATURES["country"]}, SHARE, values[:, None], 1, 9, 2000)
    inside = np.array([(of["country"] == name).to_numpy() for name in ("DE", "FR", "IT", "US")])
    counts = inside.sum(axis=1)

    def largest(right: np.ndarray) -> float:
        means = inside @ (1 - right) / counts, ~inside @ (1 - right) / (1500 - counts)
        return float(((means[0] - means[1]) / np.sqrt(1 / counts + 1 / (1500 - counts))).max())

    drawn = [largest(random.permutation(values)) for _ in range(2000)]
    assert alone["slices"][0]["p_value"] == pytest.approx(np.mean(np.array(drawn) >= largest(values) - 1e-9), abs=0.05)
    assert alone["correction"] == "step-down permutation test of the maximum"
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])


def test_differences_between_equal_groups_are_chance() -> None:
    random = np.random.default_rng(3)
    groups = {name: random.integers(0, 3, 900) == number for number, name in enumerate(("a", "b", "c"))}
    rates = {"selected": Rate(random.random(900) < 0.3, np.ones(900, bool))}
    losses = {"loss": (MEAN, random.gamma(2, 1, (900, 1)))}
    compared = compare("column", {**groups, "tiny": np.arange(900) < 5}, rates, losses, 200)
    assert [row["beyond_chance"] for row in compared["rows"]] == [False] * 6
    assert compared["too_small"] == {"tiny": 5} and compared["compared"] == 6
    biased = {"loss": (MEAN, losses["loss"][1] + groups["b"][:, None])}
    row = next(row for row in compare("column", groups, {}, biased, 200)["rows"] if row["group"] == "b")
    assert row["beyond_chance"] and 0.7 < row["difference"]["low"] < 1 < row["difference"]["high"] < 1.3
