"""The order in blocks: a bijection at any size, near in memory, the same for every number of replicas, and proved."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifacts import Model, Snapshot
from tasks.config.base import identity
from tasks.draws import position
from tasks.feed import orders
from tasks.feed.orders import batch_rows, permutation_in_blocks
from tasks.processes.workbench import Workbench
from tasks.training.fit import fit
from tasks.training.ledger import prove
from tests.support.documents import DOCS
from tests.support.tiny import CONFIG, MODEL


@settings(max_examples=80, deadline=None)
@given(n=st.integers(1, 3000), block=st.integers(1, 50), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 9))
def test_every_epoch_is_a_bijection_at_any_position(n: int, block: int, seed: int, epoch: int) -> None:
    rows = permutation_in_blocks(np.arange(n), n, seed, epoch, "train", block, blocks_of_window=4)
    assert sorted(rows.tolist()) == list(range(n))
    for place in {0, n // 3, n // 2, n - 1}:
        alone = permutation_in_blocks(np.array([place]), n, seed, epoch, "train", block, blocks_of_window=4)
        assert alone[0] == rows[place]


def test_an_epoch_of_very_many_blocks_is_a_bijection() -> None:
    """The short block comes after more than 65,536 others."""
    blocks, epoch = 70_000, 0
    seed = next(seed for seed in range(200) if position(blocks - 1, blocks, seed, epoch, "train/blocks") >= 1 << 16)
    n = 2 * blocks - 1
    rows = permutation_in_blocks(np.arange(n), n, seed, epoch, "train", 2)
    np.testing.assert_array_equal(np.sort(rows), np.arange(n))


def test_a_window_has_the_rows_of_its_blocks_alone() -> None:
    n, block = 100_003, 100
    rows = permutation_in_blocks(np.arange(n), n, 7, 0, "train", block, blocks_of_window=8)
    for begin in range(0, 10 * 8 * block, 8 * block):
        blocks = np.unique(rows[begin : begin + 8 * block] // block)
        assert len(blocks) <= 9, "eight, or nine where the short block is before"
    assert abs(np.corrcoef(rows[:-1], rows[1:])[0, 1]) < 0.2
    other = permutation_in_blocks(np.arange(n), n, 7, 1, "train", block, blocks_of_window=8)
    assert (rows == other).mean() < 0.01


def test_vectors_of_the_docs_hold() -> None:
    """Golden: these numbers are the contract. They may change with a new order version only."""
    pattern = r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| `(\w+)` \| ([\d, ]+) \|$"
    section = DOCS.read_text().partition("## Version 1b")[2].partition("\n## ")[0]
    rows = re.findall(pattern, section, re.MULTILINE)
    assert len(rows) >= 3
    for n, block, seed, epoch, split, vector in rows:
        wanted = [int(value) for value in vector.split(", ")]
        places = np.arange(len(wanted))
        assert permutation_in_blocks(places, int(n), int(seed), int(epoch), split, int(block)).tolist() == wanted


def test_the_definition_of_the_docs_is_the_code() -> None:
    definition: dict = {}
    for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        exec(code, definition)
    assert definition["WINDOW"] == orders.WINDOW
    for n, block, seed, epoch, split in [
        (1, 5, 0, 0, "a"),
        (6401, 100, 3, 3, "train"),  # the short block is alone in its window, or not
        (12799, 100, 4, 1, "train"),
        (1797, 7, 2**63 - 1, 5, "test"),
    ]:
        places = np.unique(np.linspace(0, n - 1, 20).astype(np.int64))
        wanted = [definition["permutation_in_blocks"](int(place), n, seed, epoch, split, block) for place in places]
        assert permutation_in_blocks(places, n, seed, epoch, split, block).tolist() == wanted


def test_the_global_batch_is_the_same_for_every_number_of_replicas() -> None:
    order = partial(permutation_in_blocks, block=10)
    whole, _ = batch_rows(5, 12, 1001, 3, steps=4, order=order)
    parts = [batch_rows(5, 12, 1001, 3, steps=4, replica=r, replicas=3, order=order)[0] for r in range(3)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_a_training_in_blocks_is_proved_by_its_ledger(
    tiny: Snapshot, bench: Workbench, publish: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "BLOCK_BYTES", 72)  # three rows
    config = CONFIG.model_copy(update={"order": "blocks"})
    model = publish(Model, bench, fit(bench, tiny, MODEL, config, 5))
    manifest = json.loads((model.path / "manifest.json").read_bytes())
    proofs = []
    for order in ("blocks", "shuffled"):
        trained = identity({"model": MODEL, "train": config, "seed": 5})
        manifest["inputs"] = {"config": {**trained, "train": {**trained["train"], "order": order}}}
        (model.path / "manifest.json").write_text(json.dumps(manifest))
        proofs.append(prove(model.path, tiny.path))
    assert proofs[0]["wrong"] == [] and proofs[0]["missing"] == proofs[0]["repeated"] == 0
    assert proofs[1]["wrong"], "the other order has other rows"
