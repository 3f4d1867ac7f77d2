"""The loss and its gradient: smoothing, the weights of classes, and clipping."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Snapshot
from tasks.config.base import Conflict
from tasks.errors import Refused
from tasks.feed import open_snapshot
from tasks.processes.workbench import Workbench
from tasks.training.checkpoints import STATE, unpack
from tasks.training.config import TrainConfig
from tasks.training.engines.objectives import class_weights
from tasks.training.engines.tensorflow.engine import make_objective
from tasks.training.optimizers import Adam, Sgd
from tasks.training.schedules import Constant
from tests.support.tiny import CONFIG

CONSTANT = {"schedule": Constant(), "optimizer": Adam()}


def test_label_smoothing_is_kerass(tiny: Snapshot) -> None:
    import keras
    import tensorflow as tf

    config = CONFIG.model_copy(update={"label_smoothing": 0.2})
    objective = make_objective("classification", config, open_snapshot(tiny.path))
    logits = tf.constant([[2.0, -1.0], [0.3, 0.1]])
    batch = {"label": tf.constant([0, 1], tf.int64), "weight": tf.ones(2)}
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction="none")
    expected = theirs(tf.one_hot(batch["label"], 2), logits)
    np.testing.assert_allclose(objective(batch, logits).losses, expected, rtol=1e-6)


def test_class_weights_are_by_name_or_balanced_and_must_be_whole(tiny: Snapshot) -> None:
    reader = open_snapshot(tiny.path)

    def of(given: Any) -> list[float]:
        return class_weights(given, reader).tolist()

    assert of("balanced") == [1.0, 1.0]
    assert of({"odd": 3.0, "even": 1.0}) == [1.0, 3.0]
    with pytest.raises(Refused, match="must name every class: even, odd"):
        of({"odd": 1.0})


def test_a_class_without_an_example_in_train_leaves_the_balance_to_the_others() -> None:
    labels = {"label": np.array([0, 0, 0, 2])}
    reader: Any = SimpleNamespace(features={"label": {"classes": ["a", "rare", "b"]}}, arrays=lambda split: labels)
    weights = class_weights("balanced", reader)
    np.testing.assert_allclose(weights, [4 / (2 * 3), 0, 4 / 2])


def test_the_whole_gradient_is_clipped_to_its_norm(trained: Callable[..., Workbench]) -> None:
    """One step of plain descent at rate 1 moves the weights by the gradient."""
    options = {"steps": 1, "optimizer": Sgd(), "schedule": Constant()}

    def model(name: str, rate: float, norm: float | None) -> np.ndarray:
        bench = trained(name, learning_rate=rate, clip_norm=norm, **options)
        state = unpack((bench.staging.root / STATE).read_bytes())[2]
        return np.concatenate([state[key].ravel() for key in sorted(state) if key.startswith("model/")])

    start = model("still", 1e-12, None)
    assert np.linalg.norm(model("free", 1.0, None) - start) > 0.02
    assert np.linalg.norm(model("clipped", 1.0, 0.01) - start) == pytest.approx(0.01, rel=1e-3)


def test_a_task_refuses_a_loss_that_is_not_its_own(tiny: Snapshot) -> None:
    config: TrainConfig = CONFIG.model_copy(update={"loss": "squared_error"})
    with pytest.raises(Conflict, match="the losses of classification are cross_entropy"):
        make_objective("classification", config, open_snapshot(tiny.path))


def test_accuracy_counts_answers_whatever_their_class_weighs(trained: Callable[..., Workbench]) -> None:
    """Before the first update both trainings have the same answers; their losses weigh them differently."""

    def first_point(name: str, weights: Any) -> dict[str, float]:
        options = {"steps": 1, "batch_size": 10, "log_every": 1, "class_weights": weights, **CONSTANT}
        journal: Any = trained(name, **options).journal
        return next(metrics for _, metrics in journal.points if "train/loss" in metrics)

    plain, weighted = first_point("plain", None), first_point("weighted", {"even": 1.0, "odd": 30.0})
    assert plain["train/accuracy"] == weighted["train/accuracy"]
    assert plain["train/loss"] != weighted["train/loss"]


def test_validation_knows_no_smoothing_and_no_class_weights(trained: Callable[..., Workbench]) -> None:
    """The same weights, chosen before any update by a learning rate of nearly 0, have the same validation loss."""

    def validated(name: str, **options: Any) -> dict[str, float]:
        still = {"learning_rate": 1e-12, "schedule": Constant(), "optimizer": Sgd()}
        journal: Any = trained(name, **still, steps=1, evaluate_every=1, **options).journal
        return next(metrics for _, metrics in journal.points if "validation/loss" in metrics)

    plain = validated("plain")
    assert validated("smooth", label_smoothing=0.3) == plain
    assert validated("weighted", class_weights={"even": 1.0, "odd": 30.0}) == plain
