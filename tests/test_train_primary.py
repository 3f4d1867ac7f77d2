"""The primary metric at the evaluations of a training: computed from the outputs, whoever has scored which batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tasks.evaluation.config import EvaluateConfig
from tasks.feed import open_snapshot
from tasks.models import forward, keras_file
from tasks.models.architectures.convnet import ConvnetModel
from tasks.processes.workbench import Workbench
from tasks.runner import identities
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.scoring import gathered
from tasks.training.fit import fit
from tasks.training.group import Alone, Cluster
from tasks.training.primary import Judged, Primary, evaluated
from tasks.training.sections import EarlyStopping
from tests.support.digits import Digits

MODEL = ConvnetModel(dropout=0.0)
TRAIN = TrainConfig(
    steps=12,
    batch_size=32,
    learning_rate=0.01,
    evaluate_every=4,
    select="best",
    early_stopping=EarlyStopping(patience=9),
)
BY_F1 = EvaluateConfig(primary="macro_f1")


class Together:
    """The group of several processes, here threads."""

    def __init__(self, rank: int, size: int, shared: Any) -> None:
        self.cluster, self._shared = Cluster(rank, ("a:1",) * size), shared

    def totals(self, values: Any) -> list[int]:
        self._shared.values[self.cluster.rank] = np.array(values, np.int64)
        self._shared.barrier.wait(10)
        total = np.sum(list(self._shared.values.values()), axis=0).tolist()
        self._shared.barrier.wait(10)
        return total

    def share(self, content: bytes | None) -> bytes:
        if self.cluster.rank == 0:
            self._shared.content = content
        self._shared.barrier.wait(10)
        return self._shared.content


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_process_gets_what_all_have_kept_in_the_order_of_the_batches(size: int) -> None:
    """Floats bit for bit, of an odd number of bytes; with five processes two have no batch."""
    random = np.random.default_rng(0)
    whole = {
        "logits": random.normal(0, 1e9, (9, 7)).astype(np.float32),
        "tags": random.integers(-2, 99, (9, 3)).astype(np.int32),
        "flags": random.random((9, 1)) < 0.5,
    }
    shared = SimpleNamespace(values={}, barrier=threading.Barrier(size), content=b"")

    def one(rank: int) -> dict[str, np.ndarray]:
        own = {
            number: {name: array[3 * number : 3 * number + 3] for name, array in whole.items()}
            for number in range(rank, 3, size)
        }
        return gathered(own, 3, Alone() if size == 1 else Together(rank, size, shared))

    with ThreadPoolExecutor(size) as pool:
        for found in pool.map(one, range(size)):
            assert found.keys() == whole.keys()
            for name, array in whole.items():
                assert found[name].dtype == array.dtype and found[name].tobytes() == array.tobytes(), name


def test_a_mean_that_orders_models_alike_needs_no_outputs(digits: Digits) -> None:
    for config, train, watched in (
        (EvaluateConfig(), TRAIN, ("accuracy", True)),
        (EvaluateConfig(primary="loss"), TRAIN, ("loss", False)),
    ):
        judged = Judged(digits.records, config)
        assert judged.primary(digits.snapshot, "classification", train) is None
        assert judged.watched("classification", train) == watched
    of_outputs = Judged(digits.records, BY_F1)
    primary = of_outputs.primary(digits.snapshot, "classification", TRAIN)
    assert primary is not None and primary.name == "macro_f1"
    assert of_outputs.watched("classification", TRAIN) == ("macro_f1", True)


def test_rows_that_fill_up_the_last_batch_do_not_count(digits: Digits) -> None:
    primary = Judged(digits.records, BY_F1).primary(digits.snapshot, "classification", TRAIN)
    assert isinstance(primary, Primary)
    labels = np.asarray(open_snapshot(digits.snapshot.path).arrays("validation")["label"])
    logits = np.random.default_rng(0).normal(0, 1, (len(labels) + 5, 10)).astype(np.float32)
    size = len(logits) // 2 + 1
    batches = [logits[start : start + size] for start in (0, size)]
    kept = [primary.keep(each, number * size) for number, each in enumerate(batches)]
    assert [len(each["logits"]) for each in kept] == [len(each) for each in batches]
    scorer: Any = SimpleNamespace(
        outputs=lambda batches, keep: ({"loss": 1.0}, {"logits": np.concatenate([each["logits"] for each in kept])}),
        score=lambda batches: {"loss": 2.0},
    )
    found = evaluated(scorer, [], primary)
    expected = f1_score(labels, logits[: len(labels)].argmax(1), average="macro")
    assert found == {"loss": 1.0, "macro_f1": pytest.approx(expected)} and evaluated(scorer, [], None) == {"loss": 2.0}
    broken = {"logits": np.full((len(labels), 10), np.nan, np.float32)}
    assert np.isnan(primary.value(broken))


def test_the_weights_of_the_best_primary_metric_become_the_model(
    digits: Digits, benches: Callable[[str], Workbench]
) -> None:
    """The curve has what a report of these weights would have."""
    bench = benches("by_f1")
    fit(bench, digits.snapshot, MODEL, TRAIN, 3, None, None, digits.records, BY_F1)
    points: Any = bench.journal
    curve = {step: row for step, row in points.points if "validation/macro_f1" in row}
    assert sorted(curve) == [4, 8, 12]
    best = max(curve.values(), key=lambda row: row["validation/macro_f1"])["validation/macro_f1"]
    arrays = open_snapshot(digits.snapshot.path).arrays("validation")
    model = keras_file.load(bench.staging.root)
    outputs = forward.predict(model, forward.Batch({"image": np.asarray(arrays["image"][:])}))
    expected = f1_score(np.asarray(arrays["label"]), outputs.argmax(1), average="macro")
    assert best == pytest.approx(expected, abs=1e-9)


def test_the_metric_that_evaluations_decide_by_is_part_of_the_model(digits: Digits) -> None:
    def inputs(train: TrainConfig, evaluate: EvaluateConfig) -> Any:
        return identities.model(digits.snapshot, MODEL, train, 3, None, None, evaluate).config

    last = TrainConfig(steps=12)
    by_loss = TrainConfig(steps=12, early_stopping=EarlyStopping(metric="loss"))
    for train in (last, by_loss):
        assert inputs(train, BY_F1) == inputs(train, EvaluateConfig()), "it decides nothing"
    assert inputs(TRAIN, BY_F1) != inputs(TRAIN, EvaluateConfig())
    assert inputs(TRAIN, EvaluateConfig(bins=7, resamples=999)) == inputs(TRAIN, EvaluateConfig())
