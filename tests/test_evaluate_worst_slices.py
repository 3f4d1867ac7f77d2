"""What the worst slices and groups call beyond chance: rarely where nothing differs, of units too."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse, stats

from tasks.evaluation import fairness, multiple_testing, worst_slices
from tasks.evaluation.fairness import Rate
from tasks.evaluation.metrics import Means, Metric, Share, mean
from tasks.sources.features import Feature

SHARE, MEAN = Share(lambda values: values), Means(lambda values: values, mean)
SETS, RESAMPLES = 60, 100
UNITS = np.repeat(np.arange(30), 10)


def columns_of(random: np.random.Generator, count: int, unit_of: np.ndarray | None = None) -> pl.DataFrame:
    """Four columns of two to four values; of units two have one value in each."""
    columns = {}
    for number in range(4):
        whole = unit_of is not None and number < 2
        values = random.integers(0, 2 + number % 3, 30 if whole else count)
        columns[f"c{number}"] = (values[unit_of] if whole else values).astype(str)
    return pl.DataFrame(columns)


def found(frame: pl.DataFrame, harm: np.ndarray, metric: Metric = MEAN, **more: Any) -> dict[str, Any]:
    features = {name: Feature("category", "string") for name in frame.columns}
    return worst_slices.find(frame, features, metric, harm[:, None], -1, 3, RESAMPLES, **more)


def named(made: dict[str, Any]) -> bool:
    return any(row["beyond_chance"] for row in made["slices"])


@pytest.mark.parametrize("kind", ["rare", "skewed", "units", "skewed units"])
def test_where_no_slice_is_worse_one_is_named_in_5_of_100_and_one_that_is_worse_is_found(kind: str) -> None:
    random, by_chance, there = np.random.default_rng(5), 0, 0
    unit_of = UNITS if "units" in kind else None
    for _ in range(SETS):
        frame = columns_of(random, 300, unit_of)
        harm = random.laplace(0, 1, 300) ** 2 if "skewed" in kind else random.normal(0, 1, 300)
        if unit_of is not None:
            harm = harm + (random.exponential(2, 30) if "skewed" in kind else random.normal(0, 2, 30))[unit_of]
        if kind == "rare":
            harm = (random.random(300) < 0.04).astype(float)
        bad = (frame["c2"] == "1").to_numpy()
        worse = (
            np.where(bad & (random.random(300) < 0.3), 1.0, harm) if kind == "rare" else harm + 1.5 * bad * harm.std()
        )
        metric = SHARE if kind == "rare" else MEAN
        by_chance += named(found(frame, harm, metric, units=unit_of))
        there += named(found(frame, worse, metric, units=unit_of))
    assert by_chance <= 8, "one of twenty, and three standard deviations"
    assert there >= 0.8 * SETS


def test_examples_of_a_unit_are_no_evidence_of_their_own() -> None:
    """Thirty units, of which some are worse: half of the units have a value of a column by chance."""
    random, apart, together, groups = np.random.default_rng(6), 0, 0, 0
    for _ in range(40):
        frame = columns_of(random, 300, UNITS)
        harm = random.normal(0, 2, 30)[UNITS] + random.normal(0, 1, 300)
        apart += named(found(frame, harm))
        together += named(found(frame, harm, units=UNITS))
        parts = {value: (frame["c1"] == value).to_numpy() for value in "012"}
        rates = {"rate": Rate(harm > 0, np.ones(300, bool))}
        compared = fairness.compare("c1", parts, rates, {"loss": (MEAN, harm[:, None])}, RESAMPLES, UNITS)
        groups += any(row["beyond_chance"] for row in compared["rows"])
    assert apart > 30 and together <= 6 and groups <= 6


def test_a_slice_and_its_rest_are_one_and_so_are_two_names_of_the_same_examples() -> None:
    worse = np.arange(400) % 4 == 0
    frame = pl.DataFrame({"first": np.where(worse, "a", "b"), "second": np.where(worse, "x", "y")})
    made = found(frame, worse * 1.0 + np.random.default_rng(0).normal(0, 1, 400))
    assert made["looked_at"] == 1 and [row["slice"] for row in made["slices"]] == ["first = a"]
    turned = found(frame, ~worse * 1.0 + np.random.default_rng(0).normal(0, 1, 400))
    assert [row["slice"] for row in turned["slices"]] == ["first = b"] and turned["slices"][0]["examples"] == 300
    assert made["slices"][0]["p_value"] == turned["slices"][0]["p_value"] == 1 / 101


def test_what_the_report_says_would_be_found_is_found_in_four_of_five_cases() -> None:
    random, hits = np.random.default_rng(8), []
    for _ in range(80):
        frame = columns_of(random, 400)
        harm, bad = random.normal(0, 1, 400), (frame["c1"] == "0").to_numpy()
        at = found(frame, harm)["found_from"]
        hits.append(named(found(frame, harm + at["difference"] * bad)))
        assert 20 <= at["examples"] <= 300 and at["power"] == 0.8
    assert np.mean(hits) > 0.7, "of a slice that is larger than the median one"
    assert found(columns_of(random, 400), np.ones(400))["found_from"] is None


def test_too_many_slices_are_looked_at_from_the_largest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    frame, harm = columns_of(random, 400), random.normal(0, 1, 400)
    everything = found(frame, harm)["looked_at"]
    monkeypatch.setattr(worst_slices, "MOST_MEMBERS", 1000)
    fewer = found(frame, harm)
    assert 1 < fewer["looked_at"] < 10 < everything
    assert all(" and " not in row["slice"] for row in fewer["slices"])


def test_the_steps_down_are_those_of_westfall_and_young() -> None:
    seen = np.array([1.0, 3.0, -2.0])
    draws = np.array([[0.5, 2.0, -4.0, 1.0], [1.0, 3.0, 0.0, 4.0], [0.0, 1.5, -2.5, -1.0]])
    two_sided = np.array([False, False, True])
    tested = multiple_testing._stepped_down(seen, np.ones(3), two_sided, iter([draws[:, :3], draws[:, 3:]]))
    # the largest of all: 1, 3, 2.5, 4; without the second: 0.5, 2, 2.5, 1; of the first alone: 0.5, 2, -4, 1
    assert tested.p_values.tolist() == [3 / 5, 3 / 5, 3 / 5]
    assert tested.critical == pytest.approx(np.quantile([1, 3, 2.5, 4], 0.95))


def over_units(
    members: np.ndarray, values: np.ndarray, unit_of: np.ndarray, draws: int = 99
) -> multiple_testing.Tested:
    two_sided = np.ones(len(members), bool)
    return multiple_testing.permuted_over_units(
        sparse.csr_matrix(members.astype(float)), values, unit_of, two_sided, draws
    )


def test_a_difference_of_units_is_that_of_means_by_the_standard_error_of_the_units_scores() -> None:
    random = np.random.default_rng(1)
    members, values, unit_of = random.random((3, 60)) < 0.4, random.normal(3, 1, 60), random.integers(0, 7, 60) * 10
    made = over_units(members, values, unit_of)
    for row, inside in enumerate(members):
        difference = values[inside].mean() - values[~inside].mean()
        scores = [
            ((values - values.mean()) * (inside - inside.mean()))[unit_of == unit].sum() for unit in np.unique(unit_of)
        ]
        error = np.sqrt(np.square(scores).sum()) / (inside.sum() * (1 - inside.mean()))
        assert (made.statistics[row], made.errors[row]) == pytest.approx((difference / error, error))


def test_permutations_keep_what_is_within_units_there_and_what_is_between_them_there() -> None:
    """A group of whole units has the p-value of permuted units, one that is half of each unit that within them."""
    random, unit_of = np.random.default_rng(2), np.repeat(np.arange(8), 6)
    between, within = random.normal(0, 1, 8)[unit_of], np.tile([1.0, 1, 1, 0, 0, 0], 8)
    whole, half = unit_of < 4, np.tile([True, True, True, False, False, False], 8)
    made = over_units(np.stack([whole, half]), within, unit_of)
    assert made.p_values[1] == 1 / 100 and made.statistics[0] == pytest.approx(0), "each unit has the same mean"
    made = over_units(np.stack([half, whole]), between, unit_of, 400)
    assert made.statistics[0] == pytest.approx(0) and made.p_values[0] == 1.0, "each half has the same mean"
    far = over_units(whole[None], np.where(whole, 1.0, 0.0) + random.normal(0, 0.01, 48), unit_of, 2000)
    assert far.p_values[0] == pytest.approx(2 / 70, abs=0.012), "of 70 choices of 4 units of 8, 2 are as far"


def test_few_large_values_name_no_group_that_divides_units() -> None:
    """Squares of a product of an exponential and a Laplace variable: by signs of scores, 14 of 100 sets had a group."""
    random, unit_of, by_chance = np.random.default_rng(1), np.repeat(np.arange(50), 8), 0
    for _ in range(SETS):
        values = (random.exponential(1, 50)[unit_of] * random.laplace(0, 1, 400)) ** 2
        parts = random.choice(4, 400, p=[0.5, 0.25, 0.15, 0.1])
        groups = {str(part): parts == part for part in range(4)}
        made = fairness.compare("g", groups, {}, {"loss": (MEAN, values[:, None])}, RESAMPLES, unit_of)
        by_chance += any(row["beyond_chance"] for row in made["rows"])
    assert by_chance <= 8


def test_a_slice_that_explains_everything_is_found_where_nothing_else_varies() -> None:
    frame = pl.DataFrame({"kind": ["a"] * 30 + ["b"] * 30 + ["c"] * 60})
    made = found(frame, np.repeat([2.0, 1.0], [30, 90]))
    assert made["slices"][0]["slice"] == "kind = a" and made["slices"][0]["beyond_chance"]


def test_a_difference_of_shares_has_newcombes_interval_within_its_range() -> None:
    published = fairness.newcombe((56 / 70, 48 / 80), (70, 80))
    assert (published.low, published.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))
    for shares in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)):
        made = fairness.newcombe(shares, (1, 3))
        assert -1 <= made.low <= made.value <= made.high <= 1


def test_the_rate_of_one_positive_is_marked_and_has_its_own_interval() -> None:
    truth = np.arange(200) % 40 == 0
    group = np.arange(200) < 40
    compared = fairness.compare("g", {"one": group}, {"rate": Rate(~group | truth, truth)}, {}, RESAMPLES)
    [row] = compared["rows"]
    assert row["few"] and row["value"] == 1.0 and (row["low"], row["high"]) == (pytest.approx(0.025), 1.0)
    assert -1 <= row["difference"]["low"] < 0 < row["difference"]["high"] <= 1


def test_a_rate_of_units_counts_what_they_are_worth() -> None:
    same = np.repeat(np.arange(40) % 2 == 0, 5)
    units = np.repeat(np.arange(40), 5)
    assert fairness._effective(same, units) == pytest.approx(39 * (1.972 / 2.0227) ** 2, rel=0.01)
    assert fairness._effective(same, np.arange(200)) == 200
    assert fairness._effective(np.ones(200, bool), units) == 40
    low, high = fairness.exact(0.5, fairness._effective(same, units))
    expected = stats.binomtest(19, 38).proportion_ci()
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.01)
