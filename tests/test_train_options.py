"""Options of a training: each has its effect, and resumes as exactly as the default training."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Snapshot
from tasks.errors import Failed, Stopped
from tasks.processes.workbench import Workbench
from tasks.training.actions import LogCurves, Progress
from tasks.training.fit import fit
from tasks.training.loop import Plan, make_plan
from tasks.training.meter import Meter, StepSums
from tasks.training.optimizers import Adam, Sgd
from tasks.training.schedules import Cosine, ScheduleConfig
from tasks.training.speed import Goodput, Speed
from tasks.training.strategies import Mirrored, ParameterServer, Tpu
from tests.support.benches import Pages
from tests.support.tiny import CONFIG, MODEL, STEPS, files, stopping_after
from tests.support.training import PLAIN, distance, variables


def files_of(bench: Workbench) -> list[np.ndarray]:
    """The variables of the published model."""
    import keras

    return [np.array(variable) for variable in keras.models.load_model(bench.staging.root / "model.keras").weights]


@pytest.mark.parametrize(
    ("optimizer", "tolerance"), [(Sgd(), 3e-7), pytest.param(Adam(), 2e-5, marks=pytest.mark.slow)]
)
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
        pytest.param(Sgd(), 1e-4, False, "float16", marks=pytest.mark.slow),
        pytest.param(Sgd(), 1e-3, False, "bfloat16", marks=pytest.mark.slow),
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


def test_options_resume_to_the_same_bytes(
    tiny: Snapshot, trained: Callable[..., Workbench], benches: Callable[[str], Workbench]
) -> None:
    """All of them in one training: what each does is asserted by itself elsewhere, and none has a state of its own that
    another would hide."""
    options: dict[str, Any] = {"precision": "bfloat16", "accumulate": 2, "jit": True, "evaluate_every": 2}
    options |= {"select": "best", "label_smoothing": 0.1, "class_weights": "balanced", "optimizer": Sgd(momentum=0.9)}
    unbroken = trained("unbroken", MODEL, **options)
    config = CONFIG.model_copy(update=options)
    bench = benches("broken")
    with pytest.raises(Stopped):
        fit(replace(bench, stopping=stopping_after(2)), tiny, MODEL, config, seed=5)
    fit(bench, tiny, MODEL, config, seed=5)
    assert files(bench) == files(unbroken)


def test_mirrored_replicas_drop_different_units_and_resume_exactly(apart: Callable[..., Workbench]) -> None:
    """Keras gives every replica the same seed state; ours are shifted, which the engine asserts after each load."""
    options = {"steps": 100, "strategy": Mirrored(devices=2)}
    unbroken = apart("unbroken", MODEL, **options)
    with pytest.raises(Stopped):
        apart("broken", MODEL, stop_after=1, **options)
    assert files(apart("broken", MODEL, **options)) == files(unbroken)


def test_low_precision_trains_float32_weights_that_differ_a_little(trained: Callable[..., Workbench]) -> None:
    import keras

    float32, bfloat16, float16 = (
        trained(precision, precision=precision) for precision in ("float32", "bfloat16", "float16")
    )
    assert all(values.dtype != np.float16 for values in variables(bfloat16))
    assert 0 < distance(float32, bfloat16) < 0.2
    model = keras.models.load_model(bfloat16.staging.root / "model.keras")
    assert model.dtype_policy.name == "float32"
    pairs = zip(files_of(float32), files_of(float16), strict=True)
    assert 0 < max(float(np.abs(a - b).max()) for a, b in pairs) < 0.02


def test_float16_skips_updates_until_the_scale_fits_and_resumes_within_them(
    tiny: Snapshot,
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
    assert 2 < count < 20 and scales[20] == 2.0 ** (26 - count) and skipped[1] == 1
    bench = benches("broken")
    with pytest.raises(Stopped):
        config = CONFIG.model_copy(update=options)
        fit(replace(bench, stopping=stopping_after(2)), tiny, MODEL, config, seed=5)
    assert list(bench.staging.pieces("checkpoints/")) == ["checkpoints/step-000000000002.npz"]
    fit(bench, tiny, MODEL, CONFIG.model_copy(update=options), seed=5)
    assert files(bench) == files(unbroken)


def test_gradients_that_are_never_finite_end_the_training(
    tiny: Snapshot, benches: Callable[[str], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.training.engines.tensorflow.optimizers.INITIAL_SCALE", 2.0**120)
    config = CONFIG.model_copy(update={"precision": "float16", "steps": 80})
    with pytest.raises(Failed, match="train.precision: float16; .*at most 50 updates in a row may be skipped"):
        fit(benches("never"), tiny, PLAIN, config, seed=5)


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
    log = LogCurves(10, journal, Speed(8), Goodput(measured.__setitem__))
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

    from tasks.training.engines.tensorflow.engine import check_layers

    def model(**settings: Any) -> keras.Model:
        norm = keras.layers.BatchNormalization(name="norm", **settings)
        return keras.Sequential([keras.Input((3,)), keras.Sequential([norm], name="inner")])

    with pytest.raises(Failed) as refused:
        check_layers(model(), CONFIG.model_copy(update=options))
    assert words in str(refused.value)
    check_layers(model(), CONFIG)
    check_layers(model(synchronized=True), CONFIG.model_copy(update={"strategy": Mirrored(devices=2)}))
