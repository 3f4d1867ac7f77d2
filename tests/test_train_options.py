"""What a training can be told: each option does what it says, and resumes as exactly as the plain training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.children import Crew, Limits
from tasks.config import MlpModel, TrainConfig
from tasks.config.base import Conflict
from tasks.config.train import Adam, Mirrored, Schedule, Sgd, StopConfig
from tasks.data import open_snapshot
from tasks.errors import Stopped
from tasks.training.checkpoints import STATE, unpack
from tasks.training.fit import fit
from tasks.training.ledger import LEDGER
from tasks.training.objectives import class_weights, make_objective
from tasks.workbench import Workbench
from tests.tiny import CONFIG, MODEL, STEPS, files, stopping_after, write_snapshot

PLAIN = MlpModel(units=(8, 8))
CONSTANT = {"schedule": Schedule(kind="constant", rate=0.01), "optimizer": Adam()}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("data") / "snapshot")
    return publish(Snapshot, bench, write_snapshot(bench))


@pytest.fixture
def trained(snapshot: Snapshot, benches: Callable[[str], Workbench]) -> Callable[..., Workbench]:
    """`trained(name, model, **options)`: a training on a workbench of its own."""

    def train(name: str, model: MlpModel = PLAIN, base: Model | None = None, **options: Any) -> Workbench:
        bench = benches(name)
        fit(bench, snapshot, model, CONFIG.model_copy(update=options), seed=5, base=base)
        return bench

    return train


@pytest.fixture
def apart(snapshot: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path) -> Callable[..., Workbench]:
    """`apart(name, model, stop_after=None, **options)`: a training in a compute process, as `millrace run` does it.

    Logical devices must be made before TensorFlow computes anything. With `stop_after` it is sent SIGTERM after
    that many steps, and goes on when called again.
    """

    def train(name: str, model: MlpModel = PLAIN, stop_after: int | None = None, **options: Any) -> Workbench:
        bench = benches(name)
        seen = [0]
        with Crew(tmp_path, 2).gang("train") as gang:
            gang.call(
                "tasks.training.fit:fit",
                bench.staging,
                tmp_path / f"{name}.jsonl",
                (snapshot, model, CONFIG.model_copy(update=options), 5),
                limits=Limits("resources.timeout", 120),
                hear=lambda kind, *values: seen.__setitem__(0, values[0]) if kind == "progress" else None,
                stop=lambda: 15 if stop_after is not None and seen[0] >= stop_after else 0,
            )
        return bench

    return train


def weights(bench: Workbench) -> list[np.ndarray]:
    """The model's and the optimizer's variables after the last step."""
    return [values for _, values in sorted(unpack((bench.staging.root / STATE).read_bytes())[2].items())]


def distance(one: Workbench, other: Workbench) -> float:
    return max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        for a, b in zip(weights(one), weights(other), strict=True)
    )


@pytest.mark.parametrize(("optimizer", "tolerance"), [(Sgd(), 3e-7), (Adam(), 2e-5)])
def test_accumulated_micro_batches_equal_the_large_batch(
    trained: Callable[..., Workbench], optimizer: Any, tolerance: float
) -> None:
    """Within the tolerances of docs/exactness.md; the last batch of three epochs is partly weightless."""
    options = {"optimizer": optimizer, "steps": None, "epochs": 3, "clip_norm": 0.5}
    whole = trained("whole", **options)
    assert distance(whole, trained("parts", accumulate=4, **options)) < tolerance


@pytest.mark.parametrize(("optimizer", "tolerance"), [(Sgd(), 3e-7), (Adam(), 2e-5)])
def test_mirrored_devices_equal_one_device(
    trained: Callable[..., Workbench], apart: Callable[..., Workbench], optimizer: Any, tolerance: float
) -> None:
    options = {"optimizer": optimizer, "clip_norm": 0.5, "steps": None, "epochs": 3}
    one = trained("one", **options)
    assert distance(one, apart("two", strategy=Mirrored(devices=2), **options)) < tolerance


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "bfloat16"},
        {"accumulate": 2},
        {"jit": True},
        {"select": "best", "evaluate_every": 2},
        {"label_smoothing": 0.1, "class_weights": "balanced"},
    ],
    ids=lambda options: "-".join(options),
)
def test_each_option_resumes_to_the_same_bytes(
    options: dict, snapshot: Snapshot, trained: Callable[..., Workbench], benches: Callable[[str], Workbench]
) -> None:
    unbroken = trained("unbroken", MODEL, **options)
    config = CONFIG.model_copy(update=options)
    bench = benches("broken")
    for calls in (1, 2):
        with pytest.raises(Stopped):
            fit(replace(bench, stopping=stopping_after(calls)), snapshot, MODEL, config, seed=5)
    fit(bench, snapshot, MODEL, config, seed=5)
    assert files(bench) == files(unbroken)


def test_mirrored_replicas_drop_different_units_and_resume_exactly(apart: Callable[..., Workbench]) -> None:
    """Keras gives every replica the same seed state; ours are shifted, which the engine asserts after each load."""
    options = {"steps": 600, "strategy": Mirrored(devices=2)}
    unbroken = apart("unbroken", MODEL, **options)
    with pytest.raises(Stopped):
        apart("broken", MODEL, stop_after=100, **options)
    assert files(apart("broken", MODEL, **options)) == files(unbroken)


def test_bfloat16_trains_float32_weights_that_differ_a_little(trained: Callable[..., Workbench]) -> None:
    float32, bfloat16 = trained("float32"), trained("bfloat16", precision="bfloat16")
    assert all(values.dtype != np.float16 for values in weights(bfloat16))
    assert 0 < distance(float32, bfloat16) < 0.2
    import keras

    model = keras.models.load_model(bfloat16.staging.root / "model.keras")
    assert model.dtype_policy.name == "float32"


def test_label_smoothing_is_kerass(snapshot: Snapshot) -> None:
    import keras
    import tensorflow as tf

    config = CONFIG.model_copy(update={"label_smoothing": 0.2})
    objective = make_objective("classification", config, open_snapshot(snapshot.path))
    logits = tf.constant([[2.0, -1.0], [0.3, 0.1]])
    batch = {"label": tf.constant([0, 1], tf.int64), "weight": tf.ones(2)}
    theirs = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction="none")
    expected = theirs(tf.one_hot(batch["label"], 2), logits)
    np.testing.assert_allclose(objective(batch, logits).losses, expected, rtol=1e-6)


def test_class_weights_are_by_name_or_balanced_and_must_be_whole(snapshot: Snapshot) -> None:
    reader = open_snapshot(snapshot.path)

    def of(given: Any) -> list[float]:
        return class_weights(CONFIG.model_copy(update={"class_weights": given}), reader).tolist()

    assert of("balanced") == [1.0, 1.0]
    assert of({"odd": 3.0, "even": 1.0}) == [1.0, 3.0]
    with pytest.raises(Conflict, match="must name every class: even, odd"):
        of({"odd": 1.0})


def test_training_ends_early_and_says_at_which_step(snapshot: Snapshot, benches: Callable[[str], Workbench]) -> None:
    options = {"steps": 400, "evaluate_every": 5, "stop": StopConfig(patience=2), **CONSTANT}
    config = CONFIG.model_copy(update=options)
    bench = benches("stopped")
    outcome = fit(bench, snapshot, PLAIN, config, seed=5)
    steps = outcome.also["steps"]
    assert steps < 400 and steps % 5 == 0
    losses = {
        step: metrics["validation/loss"]
        for step, metrics in bench.journal.points  # type: ignore[attr-defined]
        if "validation/loss" in metrics
    }
    best = min(losses, key=lambda step: (losses[step], step))
    assert steps == best + 10
    assert json.loads((bench.staging.root / LEDGER).read_text().splitlines()[-1])["to"] == steps

    chosen = benches("best")
    fit(chosen, snapshot, PLAIN, config.model_copy(update={"select": "best"}), seed=5)
    short = benches("short")
    fit(short, snapshot, PLAIN, config.model_copy(update={"steps": best, "stop": None}), seed=5)
    assert files(chosen)["model.weights.h5"] == files(short)["model.weights.h5"]


def test_an_extended_model_is_one_that_was_trained_longer(trained: Callable[..., Workbench], publish: Callable) -> None:
    long = trained("long", MODEL, **{**CONSTANT, "steps": 12})
    short = trained("short", MODEL, **CONSTANT)
    outcome_steps = unpack((short.staging.root / STATE).read_bytes())[0]
    assert outcome_steps == STEPS
    base = Model("0" * 64, short.staging.root, "model")
    extended = trained("extended", MODEL, base=base, **{**CONSTANT, "steps": 12})
    assert files(extended) == files(long)


def test_a_task_refuses_a_loss_that_is_not_its_own(snapshot: Snapshot) -> None:
    config: TrainConfig = CONFIG.model_copy(update={"loss": "squared_error"})
    with pytest.raises(Conflict, match="the losses of classification are cross_entropy"):
        make_objective("classification", config, open_snapshot(snapshot.path))
