"""The order by length: a bijection, batches with little padding, which is not computed, and proved by the ledger."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.config.base import identity
from tasks.draws import permutation
from tasks.errors import Refused, Stopped
from tasks.feed import open_snapshot, orders
from tasks.feed.needs import check_training
from tasks.feed.orders import LengthOrder, batch_rows
from tasks.feed.snapshot_reader import BatchReader
from tasks.models.architectures.encoder import EncoderModel
from tasks.processes.workbench import Workbench
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow import engine
from tasks.training.engines.tensorflow.step import COLUMNS, without_padding
from tasks.training.fit import fit
from tasks.training.ledger import LEDGER, prove
from tasks.training.strategies import Mirrored, Tpu
from tests.support.documents import DOCS
from tests.support.tiny import CONFIG, FILES, files, stopping_after, write_hashes
from tests.support.training import TWO, Training, distance

MODEL = EncoderModel(width=8, layers=1, heads=2, hidden=8, dropout=0.5)
PLAIN = MODEL.model_copy(update={"dropout": 0.0})
BY_LENGTH = CONFIG.model_copy(update={"order": "lengths"})
LENGTH, ROWS = 2 * COLUMNS, 22


def write_texts(bench: Workbench) -> Outcome:
    """Texts of 1 to 32 tokens of a vocabulary of 20, and their padding, in the layout of docs/contracts.md."""
    random = np.random.default_rng(1)
    counts = {"train": ROWS, "validation": 5, "test": 5}
    for split, count in counts.items():
        lengths = random.permutation(np.linspace(1, LENGTH, count).astype(np.int32))
        tokens = random.integers(1, 20, (count, LENGTH), np.uint16)
        arrays = {
            "text": np.where(np.arange(LENGTH) < lengths[:, None], tokens, 0).astype(np.uint16),
            "label": (tokens[:, 0] % 2).astype(np.int64),
            "lengths": lengths,
            "origin": np.stack([np.arange(count), np.ones(count, np.int64)], 1),
            "pieces": np.stack([np.arange(count), np.zeros(count, np.int64), np.ones(count, np.int64)], 1),
        }
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            bench.staging.put(f"{split}/{name}-00000-of-00001.npy", buffer.getvalue())
        write_hashes(bench, split, count)
    features = {
        "text": {"dtype": "uint16", "shape": [LENGTH], "vocabulary": 20, "padding": 0},
        "label": {"dtype": "int64", "shape": [], "classes": ["even", "odd"], "role": "label"},
    }
    return Outcome(counts=counts, features=features)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("data") / "snapshot")
    return publish(Snapshot, bench, write_texts(bench))


@pytest.fixture
def trained(snapshot: Snapshot, benches: Callable[[str], Workbench]) -> Callable[..., Workbench]:
    def train(name: str, model: EncoderModel = MODEL, config: TrainConfig = BY_LENGTH) -> Workbench:
        bench = benches(name)
        fit(bench, snapshot, model, config, seed=5)
        return bench

    return train


@pytest.fixture(scope="module")
def unbroken(
    snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> Model:
    bench = workbench_at(tmp_path_factory.mktemp("unbroken") / "model")
    return publish(Model, bench, fit(bench, snapshot, MODEL, BY_LENGTH, seed=5))


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 500),
    batch=st.integers(1, 9),
    most=st.integers(1, 20),
    epoch=st.integers(0, 9),
    seed=st.integers(0),
)
def test_every_epoch_is_a_bijection_at_any_position(n: int, batch: int, most: int, epoch: int, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(1, most + 1, n)
    rows = LengthOrder(lengths, batch, batches_of_window=4)(np.arange(n), n, seed % 2**63, epoch, "train")
    assert sorted(rows.tolist()) == list(range(n))
    for place in {0, n // 3, n // 2, n - 1}:
        fresh = LengthOrder(lengths, batch, batches_of_window=4)
        assert fresh(np.array([place]), n, seed % 2**63, epoch, "train")[0] == rows[place]


def test_batches_have_little_padding_and_windows_the_rows_of_version_1() -> None:
    n, batch = 20_011, 32
    lengths = np.random.default_rng(3).integers(1, 129, n)
    order = LengthOrder(lengths, batch)
    padding = {}
    for name, each in {"lengths": order, "shuffled": permutation}.items():
        rows, _ = batch_rows(0, batch, n, 7, steps=2 * n // batch, order=each)
        longest = lengths[rows].max(axis=1)
        padding[name] = 1 - lengths[rows].sum() / (longest * batch).sum()
        steps = np.corrcoef(longest[:-1], longest[1:])[0, 1]
        assert abs(steps) < 0.1, "neither short nor long batches follow each other"
    assert padding["shuffled"] > 0.4
    assert padding["lengths"] < 0.03
    size = orders.WINDOW * batch
    window = np.arange(size, 2 * size)
    assert set(order(window, n, 7, 0, "train")) == set(permutation(window, n, 7, 0, "train"))
    assert (order(window, n, 7, 1, "train") == order(window, n, 7, 0, "train")).mean() < 0.01


def test_vectors_of_the_docs_hold() -> None:
    """Golden: these numbers are the contract. They may change with a new order version only."""
    section = DOCS.read_text().partition("## Version 1c")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| `(\w+)` \| ([\d, ]+) \|$", section, re.MULTILINE)
    assert len(rows) >= 3
    for n, batch, seed, epoch, split, vector in rows:
        wanted = [int(value) for value in vector.split(", ")]
        order = LengthOrder(7919 * np.arange(int(n)) % 101, int(batch))
        assert order(np.arange(len(wanted)), int(n), int(seed), int(epoch), split).tolist() == wanted


def test_the_definition_of_the_docs_is_the_code() -> None:
    definition: dict = {}
    for code in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        exec(code, definition)
    assert definition["BATCHES"] == orders.WINDOW
    for n, batch, seed, epoch in [(1, 5, 0, 0), (700, 3, 3, 5), (650, 2, 2**63 - 1, 2)]:
        lengths = np.random.default_rng(n).integers(1, 9, n)
        places = np.unique(np.linspace(0, n - 1, 12).astype(np.int64))
        by_hand = [definition["permutation_by_length"](int(p), lengths, seed, epoch, "a", batch) for p in places]
        assert LengthOrder(lengths, batch)(places, n, seed, epoch, "a").tolist() == by_hand


def test_the_global_batch_is_the_same_for_every_number_of_replicas(snapshot: Snapshot) -> None:
    reader = open_snapshot(snapshot.path)
    whole, weights = reader.reader("train", 6, seed=3, order="lengths", epochs=2).rows(1, 8)
    assert (np.bincount(whole[weights > 0]) <= 2).all()
    parts = [
        reader.reader("train", 6, seed=3, order="lengths", epochs=2, replica=r, replicas=3).rows(1, 8)[0]
        for r in range(3)
    ]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_columns_of_padding_alone_are_cut_off() -> None:
    tokens = np.zeros((3, 50), np.uint16)
    assert without_padding(tokens).shape == (3, COLUMNS), "of empty texts some columns are left"
    tokens[1, 15] = 7
    assert without_padding(tokens).shape == (3, COLUMNS)
    tokens[2, 16] = 7
    np.testing.assert_array_equal(without_padding(tokens), tokens[:, : 2 * COLUMNS])
    tokens[2, 49] = 7
    np.testing.assert_array_equal(without_padding(tokens), tokens)


@pytest.mark.parametrize(
    "options",
    [{"accumulate": 2}, pytest.param({"jit": True, "steps": 3}, marks=pytest.mark.slow)],
    ids=lambda each: min(each),
)
def test_without_padding_the_weights_are_the_same_but_for_rounding(
    options: dict[str, Any], trained: Callable[..., Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = BY_LENGTH.model_copy(update=options)
    cut = trained("cut", PLAIN, config)
    monkeypatch.setattr(engine, "trimmed", lambda order, features: ())
    assert distance(cut, trained("whole", PLAIN, config)) < 2e-5


@pytest.mark.parametrize("strategy", [Mirrored(devices=2), pytest.param(TWO, marks=pytest.mark.slow)])
def test_replicas_that_cut_off_other_columns_sum_to_one_device(
    strategy: Any, snapshot: Snapshot, trained: Callable[..., Workbench], benches: Callable[[str], Workbench]
) -> None:
    one, two = trained("one", PLAIN), benches("two")
    Training(snapshot, two, two.staging.root.parent)(PLAIN, order="lengths", strategy=strategy)
    assert distance(one, two) < 2e-5
    assert files(one)[LEDGER] == files(two)[LEDGER]


def test_stopped_the_bytes_are_those_of_an_unbroken_run(
    snapshot: Snapshot, unbroken: Model, benches: Callable[[str], Workbench]
) -> None:
    bench = benches("broken")
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(2)), snapshot, MODEL, BY_LENGTH, seed=5)
    fit(bench, snapshot, MODEL, BY_LENGTH, seed=5)
    assert files(bench) == {name: (unbroken.path / name).read_bytes() for name in FILES}


def test_a_training_by_length_is_proved_by_its_ledger(snapshot: Snapshot, unbroken: Model, tmp_path: Path) -> None:
    model = Path(shutil.copytree(unbroken.path, tmp_path / "model"))
    manifest = json.loads((model / "manifest.json").read_bytes())
    proofs = []
    for order in ("lengths", "shuffled"):
        trained = identity({"model": MODEL, "train": BY_LENGTH, "seed": 5})
        manifest["inputs"] = {"config": {**trained, "train": {**trained["train"], "order": order}}}
        (model / "manifest.json").write_text(json.dumps(manifest))
        proofs.append(prove(model, snapshot.path))
    assert proofs[0]["wrong"] == [] and proofs[0]["missing"] == proofs[0]["repeated"] == 0
    assert proofs[1]["wrong"], "the other order has other rows"


def test_what_has_no_lengths_is_refused(tiny: Snapshot) -> None:
    features = open_snapshot(tiny.path).features
    with pytest.raises(Refused, match="needs a text of tokens"):
        check_training(features, "classification", None, (), BY_LENGTH.order)
    with pytest.raises(Refused, match="use another order, or the transform tokens"):
        open_snapshot(tiny.path).reader("train", 4, order="lengths")
    with pytest.raises(Refused, match="no lengths; the order lengths needs the length of each example"):
        BatchReader({"text": np.zeros((3, 4))}, "train", 2, order="lengths")
    with pytest.raises(ValueError, match="tpu compiles for one"):
        TrainConfig(steps=1, order="lengths", strategy=Tpu(devices=1))
