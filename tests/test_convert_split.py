"""Splits are a function of each row alone: whatever comes beside it, it stays where it is; and shares are kept."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.records.assignment import Assignment
from tasks.records.config import RecordsConfig
from tasks.sources.features import Feature
from tasks.sources.hashes import SPACE, Hashes, digests, places, shard_bounds, split_numbers

SHARES = st.lists(st.integers(1, 50), min_size=2, max_size=4).map(
    lambda parts: {f"split{number}": part / sum(parts) for number, part in enumerate(parts)}
)
SEEDS = st.integers(0, 2**63 - 1)


@cache
def hashes(count: int, start: int = 0) -> Hashes:
    return digests([str(number).encode() for number in range(start, start + count)])[:, 0]


@settings(max_examples=60, deadline=None)
@given(shares=SHARES, seed=SEEDS, cut=st.integers(1, 999))
def test_a_row_keeps_its_split_and_place_whatever_comes_beside_it(shares: dict, seed: int, cut: int) -> None:
    rows = hashes(1000)
    whole, alone = split_numbers(rows, shares, seed), split_numbers(rows[cut:][::-1], shares, seed)[::-1]
    np.testing.assert_array_equal(alone, whole[cut:])
    np.testing.assert_array_equal(places(rows[cut:], seed), places(rows, seed)[cut:])
    reordered = dict(reversed(shares.items()))
    np.testing.assert_array_equal(split_numbers(rows, reordered, seed), whole)


@settings(max_examples=60, deadline=None)
@given(shares=SHARES, seed=SEEDS)
def test_splits_have_their_shares(shares: dict, seed: int) -> None:
    """Within six standard deviations of a binomial number, which chance passes once in 10^9 draws."""
    count = 20_000
    numbers = split_numbers(hashes(count), shares, seed)
    for number, name in enumerate(sorted(shares)):
        share = shares[name]
        assert abs((numbers == number).sum() - share * count) <= 6 * np.sqrt(count * share * (1 - share)) + 1
    sizes = [
        ((places(hashes(count), seed) >= low) & (places(hashes(count), seed) < high - 1)).sum()
        for low, high in shard_bounds(4)
    ]
    assert max(sizes) - min(sizes) < 600, "places are uniform"


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, shards=st.integers(1, 40))
def test_shards_cut_the_places_without_gap(seed: int, shards: int) -> None:
    bounds = shard_bounds(shards)
    assert bounds[0][0] == 0 and bounds[-1][1] == SPACE
    assert all(one[1] == other[0] for one, other in itertools.pairwise(bounds))


@settings(max_examples=60, deadline=None)
@given(
    groups=st.lists(st.sampled_from(["a", "b", "c", "d", ""]), min_size=1, max_size=40),
    seed=SEEDS,
    parts=st.lists(st.integers(1, 9), min_size=3, max_size=3),
)
def test_a_group_is_in_one_split(groups: list[str], seed: int, parts: list[int]) -> None:
    names = ("train", "validation", "test")
    splits = {name: part / sum(parts) for name, part in zip(names, parts, strict=True)}
    config = RecordsConfig(splits=splits, split_seed=seed)
    assignment = Assignment(config, {"group": Feature("category", "string", role="group")}, ())
    raw = {"group": pa.array([group or None for group in groups], pa.string())}
    rows = hashes(len(groups))
    numbers, alone = assignment.numbers(pa.table(raw), raw, rows, None, {})
    for group in set(groups) - {""}:
        assert len({int(number) for number, name in zip(numbers, groups, strict=True) if name == group}) == 1
    without = np.array([group == "" for group in groups])
    np.testing.assert_array_equal(numbers[without], split_numbers(rows, splits, seed)[without])
    np.testing.assert_array_equal(alone, without)


def test_rows_whose_number_of_a_group_is_missing_are_no_group() -> None:
    splits = {"train": 0.5, "validation": 0.2, "test": 0.3}
    config = RecordsConfig(splits=splits)
    assignment = Assignment(config, {"patient": Feature("number", "float32", role="group")}, ())
    patients = np.array([7.0, 8.0] * 50 + [np.nan] * 100, np.float32)
    raw, rows = {"patient": pa.array(patients)}, hashes(200)
    numbers, by_row = assignment.numbers(pa.table(raw), raw, rows, None, {})
    for patient in (7.0, 8.0):
        assert len(set(numbers[patients == patient].tolist())) == 1
    alone = np.isnan(patients)
    np.testing.assert_array_equal(numbers[alone], split_numbers(rows, splits, config.split_seed)[alone])
    np.testing.assert_array_equal(by_row, alone)
    assert set(numbers[alone].tolist()) == {0, 1, 2}


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.integers(0, 100), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 99), min_size=2, max_size=2, unique=True),
)
def test_by_time_no_split_has_a_row_of_another_ones_time(times: list[int], cuts: list[int]) -> None:
    first, second = (f"1970-04-{1 + cut // 4:02d}" for cut in sorted(cuts))
    if first == second:
        return
    config = RecordsConfig(splits="time", split_times={"validation": first, "test": second})
    assignment = Assignment(config, {"when": Feature("time", "int64", role="time")}, ())
    days = np.array(times) // 4 + 90  # 1970-04-01 is day 90
    table = pa.table({"when": pa.array(days * 86_400_000_000)})
    numbers, alone = assignment.numbers(table, {}, hashes(len(times)), None, {})
    assert not alone.any(), "a copy does not take another to its time"
    order = {name: assignment.names.index(name) for name in ("train", "validation", "test")}
    latest = {name: days[numbers == number].max(initial=-1) for name, number in order.items()}
    earliest = {name: days[numbers == number].min(initial=10_000) for name, number in order.items()}
    assert latest["train"] < min(earliest["validation"], earliest["test"])
    assert latest["validation"] < earliest["test"]
