"""The order of examples: a keyed permutation, computed at any position."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.draws import permutation, position, round_keys
from tasks.errors import Refused
from tasks.feed.orders import EpochOrder, LengthOrder, batch_rows, permutation_in_blocks, steps_of, stored
from tests.support.documents import DOCS

SEEDS = st.integers(0, 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 5000), seed=SEEDS, epoch=st.integers(0, 2**63 - 1))
def test_every_epoch_is_a_bijection(n: int, seed: int, epoch: int) -> None:
    assert sorted(permutation(np.arange(n), n, seed, epoch).tolist()) == list(range(n))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 10**12), seed=SEEDS, data=st.data())
def test_any_position_is_computed_by_itself(n: int, seed: int, data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20, unique=True)))
    rows = permutation(places, n, seed, 3)
    assert len(set(rows.tolist())) == len(places)
    assert rows.min() >= 0
    assert rows.max() < n
    for place, row in zip(places, rows, strict=True):
        assert permutation(np.array([place]), n, seed, 3)[0] == row


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 10**12), seed=SEEDS, epoch=st.integers(0, 2**63 - 1), data=st.data())
def test_the_position_of_a_row_is_where_it_stands(n: int, seed: int, epoch: int, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, n - 1))
    assert permutation(np.array([position(row, n, seed, epoch)]), n, seed, epoch)[0] == row
    for wrong in (-1, n):
        with pytest.raises(ValueError, match=r"row -?\d+: must be in \[0, "):
            position(wrong, n, seed, epoch)


def test_tiny_splits_see_all_their_orders() -> None:
    for n in (1, 2, 3, 4):
        seen = {tuple(permutation(np.arange(n), n, seed, epoch)) for seed in range(20) for epoch in range(20)}
        assert seen == set(permutations(range(n)))


def test_no_two_of_seed_epoch_and_split_stand_in_for_each_other() -> None:
    """Added up, seed 1 epoch 0 is seed 0 epoch 1; chained, every combination has an order of its own."""
    keys = {
        tuple(round_keys(seed, epoch, split).tolist())
        for seed in (*range(20), 2**63 - 1)
        for epoch in range(20)
        for split in ("train", "test")
    }
    assert len(keys) == 21 * 20 * 2


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9, 10**12])
def test_neighbours_are_not_correlated(n: int) -> None:
    count = 10_000
    for lag in (1, 2, 7, 64):
        collected = []
        for seed in range(8):
            rows = permutation(np.arange(count), n, seed, 0).astype(float)
            collected.append(np.corrcoef(rows[:-lag], rows[lag:])[0, 1])
        # The standard error of the mean of eight is 1 / sqrt(8 x 10,000), 0.0035.
        assert abs(np.mean(collected)) < 0.015


def test_epochs_of_a_seed_are_not_correlated() -> None:
    n = 10_000
    orders = [permutation(np.arange(n), n, 5, epoch).astype(float) for epoch in range(6)]
    table = np.corrcoef(orders)
    assert np.abs(table - np.eye(6)).max() < 0.05


def test_rows_land_evenly() -> None:
    """Of the first tenth of the positions every tenth of the rows gets its share."""
    n = 100_000
    counts = sum(np.bincount(permutation(np.arange(n // 10), n, seed, 0) * 10 // n, minlength=10) for seed in range(10))
    assert np.abs(counts - 10_000).max() < 500


def test_arguments_outside_of_their_ranges_are_refused() -> None:
    for positions, n, seed, epoch in [
        ([5], 5, 0, 0),
        ([-1], 5, 0, 0),
        ([0], 0, 0, 0),
        ([0], 5, -1, 0),
        ([0], 5, 2**63, 0),
        ([0], 5, 0, -1),
        ([0], 5, 0, 2**63),
        ([], 0, 0, 0),
    ]:
        with pytest.raises(ValueError, match=r"positions|needs"):
            permutation(np.array(positions, np.int64), n, seed, epoch)
    with pytest.raises(ValueError, match="needs"):
        batch_rows(0, 4, 5, -1)


def test_vectors_of_the_docs_hold() -> None:
    """Golden: these numbers are the contract. They may change with a new order version only."""
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| `(\w+)` \| ([\d, ]+) \|$", DOCS.read_text(), re.MULTILINE)
    assert len(rows) >= 8
    for n, seed, epoch, split, vector in rows:
        wanted = [int(value) for value in vector.split(", ")]
        assert permutation(np.arange(len(wanted)), int(n), int(seed), int(epoch), split).tolist() == wanted


def test_the_definition_of_the_docs_is_the_code() -> None:
    definition: dict = {}
    exec(re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[0], definition)
    for n, seed, epoch, split in [
        (1, 0, 0, "a"),
        (7, 3, 2, "train"),
        (1797, 42, 1, "test"),
        (10**12, 2**63 - 1, 9, "train"),
    ]:
        wanted = [definition["permutation"](position, n, seed, epoch, split) for position in range(min(n, 50))]
        assert permutation(np.arange(min(n, 50)), n, seed, epoch, split).tolist() == wanted


def test_batches_cut_the_concatenated_epochs() -> None:
    n, size = 10, 4
    sequence = np.concatenate([permutation(np.arange(n), n, 7, epoch) for epoch in range(4)])
    for step in range(10):
        rows, weights = batch_rows(step, size, n, 7)
        assert rows.tolist() == [sequence[step * size : (step + 1) * size].tolist()]
        assert weights.all()


def test_several_steps_at_once_are_the_same_steps() -> None:
    rows, weights = batch_rows(5, 6, 13, 1, steps=9, epochs=5)
    for number in range(9):
        row, weight = batch_rows(5 + number, 6, 13, 1, epochs=5)
        np.testing.assert_array_equal(rows[number], row[0])
        np.testing.assert_array_equal(weights[number], weight[0])


def test_a_batch_may_span_many_epochs() -> None:
    rows, _ = batch_rows(0, 10, 3, 0)
    assert sorted(rows[0, :9].tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_rows_past_the_last_epoch_weigh_nothing() -> None:
    n, size, epochs = 10, 4, 3
    steps = steps_of(epochs, n, size)
    rows, weights = batch_rows(0, size, n, 7, steps=steps, epochs=epochs)
    assert steps == 8
    assert weights.dtype == np.float32
    assert weights.sum() == epochs * n
    assert (np.bincount(rows[weights > 0], minlength=n) == epochs).all()


@pytest.mark.parametrize("order", [permutation, stored])
def test_the_global_batch_is_the_same_at_every_world_size(order: EpochOrder) -> None:
    whole, weight = batch_rows(3, 8, 21, 9, steps=4, epochs=2, order=order)
    for replicas in (1, 2, 4, 8):
        parts = [
            batch_rows(3, 8, 21, 9, steps=4, epochs=2, order=order, replica=replica, replicas=replicas)
            for replica in range(replicas)
        ]
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in parts], axis=1), whole)
        np.testing.assert_array_equal(np.concatenate([weights for _, weights in parts], axis=1), weight)


def test_a_late_step_costs_nothing_and_overflows_nowhere() -> None:
    rows, _ = batch_rows(10**12, 2**24 // 4096, 10**12, 2**63 - 1)
    assert rows.min() >= 0
    assert rows.max() < 10**12


def test_a_batch_that_does_not_divide_is_refused_with_the_nearest_that_do() -> None:
    with pytest.raises(Refused, match="use 96 or 120"):
        batch_rows(0, 100, 1000, 0, replicas=24)
    with pytest.raises(Refused) as refused:
        batch_rows(0, 3, 1000, 0, replicas=8)
    assert refused.value.remedy == "use 8", "a batch of none is no batch"


@pytest.mark.parametrize("order", [permutation, partial(permutation_in_blocks, block=2), LengthOrder(np.arange(10), 2)])
def test_batches_of_a_split_are_in_the_order_of_its_name(order: EpochOrder) -> None:
    rows, _ = batch_rows(0, 10, 10, 7, "validation", steps=2, order=order)
    for epoch in (0, 1):
        assert rows[epoch].tolist() == order(np.arange(10), 10, 7, epoch, "validation").tolist()
        assert rows[epoch].tolist() != order(np.arange(10), 10, 7, epoch, "train").tolist()


def test_order_needs_numpy_alone() -> None:
    code = "import sys, tasks.feed.orders; assert not {'tensorflow', 'keras', 'jax', 'PIL'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
