"""Options of a training: each has its effect, and resumes as exactly as the default training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Model, Snapshot
from tasks.config import MlpModel, TrainConfig, identity
from tasks.config.base import Conflict
from tasks.config.optimizer import Adam, Sgd
from tasks.config.schedule import Constant, Cosine, Linear, ScheduleConfig
from tasks.config.strategy import Mirrored, ParameterServer, Tpu
from tasks.config.train import CheckpointConfig, EarlyStopping
from tasks.data import open_snapshot
from tasks.errors import Failed, Refused, Stopped
from tasks.processes.crew import Crew, Limits
from tasks.processes.workbench import Workbench
from tasks.training.actions import Log, Progress
from tasks.training.best_weights import BestWeights
from tasks.training.checkpoints import STATE, unpack
from tasks.training.continuing import check_base
from tasks.training.engines.tensorflow.objectives import make_objective
from tasks.training.engines.tensorflow.objectives.classification import class_weights
from tasks.training.fit import fit
from tasks.training.goodput import Goodput
from tasks.training.ledger import LEDGER
from tasks.training.meter import Meter, StepSums
from tasks.training.plan import Plan, make_plan
from tasks.training.speed import Speed
from tests.conftest import Pages
from tests.tiny import CONFIG, MODEL, STEPS, files, stopping_after, write_snapshot

PLAIN = MlpModel(units=(8, 8))
CONSTANT = {"schedule": Constant(), "optimizer": Adam()}


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
                on_report=lambda kind, *values: seen.__setitem__(0, values[0]) if kind == "progress" else None,
                stop=lambda: 15 if stop_after is not None and seen[0] >= stop_after else 0,
            )
        return bench

    return train


def weights(bench: Workbench) -> list[np.ndarray]:
    """The model's and the optimizer's variables after the last step."""
    return [values for _, values in sorted(unpack((bench.staging.root / STATE).read_bytes())[2].items())]


def files_of(bench: Workbench) -> list[np.ndarray]:
    """The variables of the published model."""
    import keras

    return [np.array(variable) for variable in keras.models.load_model(bench.staging.root / "model.keras").weights]


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


@pytest.mark.parametrize(
    ("optimizer", "tolerance", "jit", "precision"),
    [
        (Sgd(), 3e-7, False, "float32"),
        (Adam(), 2e-5, True, "float32"),
        (Sgd(), 1e-4, False, "float16"),
        (Sgd(), 1e-3, False, "bfloat16"),
    ],
)
def test_mirrored_devices_equal_one_device(
    trained: Callable[..., Workbench],
    apart: Callable[..., Workbench],
    optimizer: Any,
    tolerance: float,
    jit: bool,
    precision: str,
) -> None:
    options = {"optimizer": optimizer, "clip_norm": 0.5, "steps": None, "epochs": 3, "jit": jit, "precision": precision}
    one = trained("one", **options)
    assert distance(one, apart("two", strategy=Mirrored(devices=2), **options)) < tolerance


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "bfloat16"},
        {"precision": "float16"},
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


def test_float16_skips_updates_until_the_scale_fits_and_resumes_within_them(
    snapshot: Snapshot,
    trained: Callable[..., Workbench],
    benches: Callable[[str], Workbench],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first scale makes every gradient infinite; each skipped update halves it."""
    monkeypatch.setattr("tasks.training.engines.tensorflow.optimizers.INITIAL_SCALE", 2.0**26)
    options = {"precision": "float16", "steps": 20, "log_every": 1}
    unbroken = trained("unbroken", MODEL, **options)
    points: Any = unbroken.journal
    scales = {step: values["train/loss_scale"] for step, values in points.points if "train/loss_scale" in values}
    skipped = {step: values["train/skipped_updates"] for step, values in points.points if "train/loss_scale" in values}
    count = int(skipped[20])
    assert 0 < count < 20 and scales[20] == 2.0 ** (26 - count) and skipped[1] == 1
    bench = benches("broken")
    for _ in range(3):
        with pytest.raises(Stopped):
            config = CONFIG.model_copy(update=options)
            fit(replace(bench, stopping=stopping_after(1)), snapshot, MODEL, config, seed=5)
    fit(bench, snapshot, MODEL, CONFIG.model_copy(update=options), seed=5)
    assert files(bench) == files(unbroken)


def test_float16_differs_a_little_from_float32_and_the_model_is_float32(trained: Callable[..., Workbench]) -> None:
    float32, float16 = files_of(trained("float32")), files_of(trained("float16", precision="float16"))
    assert 0 < max(float(np.abs(a - b).max()) for a, b in zip(float32, float16, strict=True)) < 0.02


def test_gradients_that_are_never_finite_end_the_training(
    snapshot: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.training.engines.tensorflow.optimizers.INITIAL_SCALE", 2.0**120)
    config = CONFIG.model_copy(update={"precision": "float16", "steps": 80})
    with pytest.raises(Failed, match="train.precision: float16; .*at most 50 updates in a row may be skipped"):
        fit(benches("never"), snapshot, PLAIN, config, seed=5)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "train.strategy.address: .*Please provide a TPU Name to connect to"),
        ("local", "train.strategy.address: local: TPUs not found in the cluster"),
        ("grpc://127.0.0.1:1", "train.strategy.address: grpc://127.0.0.1:1: .*Connection refused; .*local on a TPU VM"),
    ],
)
def test_a_tpu_that_is_not_there_is_one_clear_error(address: str, says: str, apart: Callable[..., Workbench]) -> None:
    with pytest.raises(Failed, match=says):
        apart("tpu", strategy=Tpu(address=address, devices=2))


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


def test_a_class_without_an_example_in_train_leaves_the_balance_to_the_others() -> None:
    labels = {"label": np.array([0, 0, 0, 2])}
    reader: Any = SimpleNamespace(features={"label": {"classes": ["a", "rare", "b"]}}, arrays=lambda split: labels)
    weights = class_weights(CONFIG.model_copy(update={"class_weights": "balanced"}), reader)
    np.testing.assert_allclose(weights, [4 / (2 * 3), 0, 4 / 2])


def test_training_ends_early_and_says_at_which_step(snapshot: Snapshot, benches: Callable[[str], Workbench]) -> None:
    options = {"steps": 400, "evaluate_every": 5, "early_stopping": EarlyStopping(patience=2), **CONSTANT}
    config = CONFIG.model_copy(update=options)
    measured: dict[str, float] = {}
    bench = replace(benches("stopped"), measure=measured.__setitem__)
    outcome = fit(bench, snapshot, PLAIN, config, seed=5)
    steps = outcome.also["steps"]
    assert steps < 400 and steps % 5 == 0
    assert measured["train/step_ms"] > 0 and measured["train/examples_per_second"] > 0
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
    fit(short, snapshot, PLAIN, config.model_copy(update={"steps": best, "early_stopping": None}), seed=5)
    assert files(chosen)["model.weights.h5"] == files(short)["model.weights.h5"]


def test_the_checkpoint_with_the_best_validation_loss_is_kept(
    snapshot: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    """The rate makes the loss rise."""
    checkpoint = CheckpointConfig(every=1, keep=1, keep_best=True)
    options = {"steps": 30, "evaluate_every": 2, "checkpoint": checkpoint, "learning_rate": 0.3, **CONSTANT}
    bench = benches("kept")
    with pytest.raises(Stopped):
        config = CONFIG.model_copy(update=options)
        fit(replace(bench, stopping=stopping_after(20)), snapshot, PLAIN, config, seed=5)
    points: Any = bench.journal
    losses = {step: values["validation/loss"] for step, values in points.points if "validation/loss" in values}
    steps = sorted(int(path.stem[5:]) for path in (bench.staging.root / "checkpoints").glob("*.npz"))
    assert steps == [min(losses, key=lambda step: losses[step]), 20] and steps[0] < 20


@pytest.mark.parametrize(
    ("first", "whole", "options"),
    [
        ({}, {"steps": 12}, {}),
        ({"steps": None, "epochs": 2}, {"steps": None, "epochs": 4}, {"batch_size": 5}),
        ({"steps": None, "epochs": 2}, {"steps": 11}, {"batch_size": 5}),
        ({"steps": 3}, {"steps": None, "epochs": 3}, {}),
        ({"steps": 6}, {"steps": 12}, {"select": "best", "evaluate_every": 2, "learning_rate": 0.05}),
        ({"steps": 6}, {"steps": 12}, {"early_stopping": EarlyStopping(patience=4), "evaluate_every": 2}),
    ],
    ids=["steps", "epochs", "epochs-steps", "steps-epochs", "best", "early-stopping"],
)
def test_a_continued_model_is_one_that_was_trained_longer(
    first: dict, whole: dict, options: dict, trained: Callable[..., Workbench], snapshot: Snapshot
) -> None:
    config = CONFIG.model_copy(update={**CONSTANT, **options})
    long = trained("long", MODEL, **{**CONSTANT, **options, **whole})
    short = trained("short", MODEL, **{**CONSTANT, **options, **first})
    base = Model("0" * 64, short.staging.root, "model")
    steps = unpack((short.staging.root / STATE).read_bytes())[0]
    manifest = {"parents": {"snapshot": snapshot.digest}, "steps": steps}
    began = config.model_copy(update=first)
    manifest["inputs"] = {"config": identity({"model": MODEL, "train": began, "seed": 5})}
    (base.path / "manifest.json").write_text(json.dumps(manifest))
    check_base(base, snapshot, {"model": MODEL, "train": config.model_copy(update=whole), "seed": 5})
    continued = trained("continued", MODEL, base=base, **{**CONSTANT, **options, **whole})
    assert files(continued) == files(long)
    if options.get("select") == "best":
        points: Any = long.journal
        losses = {step: values["validation/loss"] for step, values in points.points if "validation/loss" in values}
        assert min(losses, key=lambda step: losses[step]) <= steps, "the best is the base's"


@pytest.mark.parametrize(
    ("began", "continued", "says"),
    [
        ({}, {"learning_rate": 0.02}, "train.learning_rate: 0.02; the model that is continued has 0.01; use the same"),
        ({}, {"batch_size": 2}, "train.batch_size: 2; the model that is continued has 4"),
        ({"schedule": Linear()}, {}, "train.schedule.kind: linear; its rates depend on the last step"),
        ({}, {"steps": 7}, "train.steps: 7; must pass the 7 steps that the model has taken"),
        ({"steps": None, "epochs": 3}, {"steps": None, "epochs": 3}, "train.epochs: 3; must pass the 8 steps"),
        (
            {"steps": None, "epochs": 3},
            {"steps": None, "epochs": 6},
            "the last step of its 3 epochs was fed 2 of 4 examples; a longer training feeds that step whole",
        ),
        ({}, {"select": "best"}, "train.select: best; the model that is continued has None"),
        ({}, {"early_stopping": EarlyStopping()}, "train.early_stopping: .*remembers no evaluations for it"),
        (
            {"select": "best", "evaluate_every": 7},
            {"evaluate_every": 3},
            "train.evaluate_every: 3; the model that is continued was evaluated every 7 steps",
        ),
        ({"select": "best"}, {}, "its last evaluation was at step 7, no multiple of 4; a longer training is not"),
        (
            {"steps": 20, "early_stopping": EarlyStopping()},
            {"steps": 30},
            "its training was ended by train.early_stopping at step 7",
        ),
    ],
)
def test_what_would_not_be_a_longer_training_is_refused_with_the_reason(
    began: dict, continued: dict, says: str, snapshot: Snapshot, tmp_path: Path
) -> None:
    before = CONFIG.model_copy(update={**CONSTANT, **began})
    after = before.model_copy(update={"steps": 12, **continued})
    steps = 8 if before.epochs else 7
    manifest = {"parents": {"snapshot": snapshot.digest}, "steps": steps}
    manifest["inputs"] = {"config": identity({"model": MODEL, "train": before, "seed": 5})}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    base = Model("0" * 64, tmp_path, "model")
    with pytest.raises(Refused, match=says):
        check_base(base, snapshot, {"model": MODEL, "train": after, "seed": 5})


def test_weights_that_have_no_validation_loss_are_never_the_best() -> None:
    def weights() -> dict[str, np.ndarray]:
        return {"w": np.array(len(best.losses))}

    best = BestWeights(CONFIG.model_copy(update={"select": "best", "early_stopping": EarlyStopping(patience=3)}))
    losses = (float("nan"), 2.0, float("nan"), 3.0, 2.5)
    seen = [best.update({"loss": loss, "accuracy": 0.5}, weights, ("accuracy", True)) for loss in losses]
    assert (best.losses, best.watched, best.best()["w"]) == ([2.0], [2.0], 1)
    assert seen == [False, False, False, False, True]


def test_the_schedule_is_at_its_end_at_the_last_step() -> None:
    def shares(steps: int, **options: Any) -> list[float]:
        schedule = TypeAdapter(ScheduleConfig).validate_python(options)
        return [schedule.factor(step, steps) for step in range(steps)]

    assert shares(5, kind="linear") == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert shares(5, kind="cosine", end=0.2) == pytest.approx(
        [0.2 + 0.4 * (1 + np.cos(np.pi * k / 4)) for k in range(5)]
    )
    assert shares(6, kind="linear", warmup=2, end=0.5) == pytest.approx([0.5, 1.0, 0.875, 0.75, 0.625, 0.5])
    assert shares(5, kind="constant", warmup=4) == [0.25, 0.5, 0.75, 1.0, 1.0]
    for kind in ("linear", "cosine"):
        assert shares(1, kind=kind) == [1.0], "the only step"
        assert shares(2, kind=kind) == pytest.approx([1.0, 0.0])
        assert shares(3, kind=kind, warmup=3) == pytest.approx([1 / 3, 2 / 3, 1.0]), "all of it warm-up"
        assert shares(3, kind=kind, warmup=2) == pytest.approx([0.5, 1.0, 0.0])
    plan = make_plan(CONFIG, 10, ())
    assert plan.rates(0, STEPS).tolist() == pytest.approx(
        [0.01 * CONFIG.schedule.factor(k, STEPS) for k in range(STEPS)]
    )


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


def test_a_task_refuses_a_loss_that_is_not_its_own(snapshot: Snapshot) -> None:
    config: TrainConfig = CONFIG.model_copy(update={"loss": "squared_error"})
    with pytest.raises(Conflict, match="the losses of classification are cross_entropy"):
        make_objective("classification", config, open_snapshot(snapshot.path))


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


def sums(steps: int, seconds: float) -> StepSums:
    ones = np.ones(steps)
    counted = dict.fromkeys(("loss", "weight", "seen", "accuracy"), ones)
    return StepSums(counted, ones, ones > 0, ones.astype(np.float32), 0, 0, seconds, seconds / 4)


def test_step_ms_excludes_the_first_call_and_the_time_between_calls() -> None:
    """`train/step_ms` is one number, in the curves and in the measurements."""
    meter, measured = Meter(), {}
    plan = Plan(30, 8, 100, None, 0.1, Cosine(), (10,))
    reports: list[dict[str, Any]] = []
    progress = Progress(
        plan, lambda *_, **figures: reports.append(figures), measured.__setitem__, began=time.monotonic() - 3600
    )
    progress.begin()
    journal = Pages()
    for step, seconds in ((10, 60.0), (20, 1.0), (30, 2.0)):
        meter.add(sums(10, seconds))
        progress(step, meter, None)  # type: ignore[arg-type]
        progress.began = time.monotonic() - 3600  # an hour of validation
    progress.end()
    assert reports[0] == {"now": "building the model, compiling its first step"}
    assert [*reports[1]] == ["loss"], "after the call that compiles"
    log = Log(10, journal, Speed(8), Goodput(measured.__setitem__))
    log(30, meter, SimpleNamespace(memory=lambda: 0))  # type: ignore[arg-type]
    (_, point), *_ = journal.points
    assert measured["train/step_ms"] == point["train/step_ms"] == pytest.approx(150)
    assert measured["train/examples_per_second"] == point["train/examples_per_second"] == pytest.approx(160 / 3)
    assert measured["train/input_share"] == point["train/input_share"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"strategy": Mirrored(devices=2)},
            "train.strategy: BatchNormalization norm; its statistics would be those of one",
        ),
        ({"strategy": ParameterServer()}, "parameter_server has no batch whose statistics all workers share"),
        ({"accumulate": 2}, "train.accumulate: BatchNormalization norm; its statistics would be those of one of"),
    ],
)
def test_a_batch_norm_is_refused_where_the_batch_is_divided(options: dict[str, Any], words: str) -> None:
    import keras

    from tasks.training.engines.tensorflow.checks import check_layers

    def model(**settings: Any) -> keras.Model:
        norm = keras.layers.BatchNormalization(name="norm", **settings)
        return keras.Sequential([keras.Input((3,)), keras.Sequential([norm], name="inner")])

    with pytest.raises(Failed) as refused:
        check_layers(model(), CONFIG.model_copy(update=options))
    assert words in str(refused.value)
    check_layers(model(), CONFIG)
    check_layers(model(synchronized=True), CONFIG.model_copy(update={"strategy": Mirrored(devices=2)}))
