"""The test of a strategy's arithmetic passes for each strategy and precision, and fails for each known fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tasks.config.compose import load
from tasks.errors import Failed
from tasks.processes.workbench import Work, Workbench
from tasks.runner.attempt import Attempt, RunRequest, attempt_run
from tasks.runner.starting_models import check_strategy
from tasks.training.engines.tensorflow import self_test
from tasks.training.engines.tensorflow.step import Step
from tasks.training.engines.tensorflow.strategies import replicated
from tasks.training.strategies import Mirrored, MultiWorker, OneDevice, Pipeline
from tests.support.homes import DIGITS
from tests.support.training import verdict

PRECISIONS = ("float32", "bfloat16", "float16")


def in_turn(bench: Workbench, strategy: Any, precisions: Any) -> dict[str, dict[str, float]]:
    """By precision what is found in one process; a worker of several has one cluster, and so one precision."""
    return {precision: self_test.run(bench, strategy, precision) for precision in precisions}


@pytest.mark.parametrize(
    ("strategy", "precisions"),
    [
        *((strategy, PRECISIONS) for strategy in (OneDevice(), Mirrored(), Pipeline())),
        *((MultiWorker(), (precision,)) for precision in ("float32", "float16")),
        (Pipeline(workers=2), ("float32",)),
        pytest.param(MultiWorker(), ("bfloat16",), marks=pytest.mark.slow),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else each.kind,
)
def test_every_strategy_passes(strategy: Any, precisions: Any, tmp_path: Path) -> None:
    every: Any = verdict(tmp_path, strategy, precisions, function=in_turn)
    assert set(every) == set(precisions)
    for precision, found in every.items():
        assert found["weights"] < self_test.TOLERANCE[precision]
        assert found.get("different_masks", 1) == strategy.replicas
        assert found.get("loss_scale", 2.0**14) == 2.0**14
        assert ("loss_scale" in found) is (precision == "float16")


def clipped_before_the_reduce(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    accumulated, names = Step.accumulated, 4

    def clipped(self: Step, batch: Any) -> list[tf.Tensor]:
        sums = accumulated(self, batch)
        gradients, _ = tf.clip_by_global_norm(sums[names:], 0.05)
        return [*sums[:names], *gradients]

    Step.accumulated = clipped  # type: ignore[method-assign]
    return self_test.run(bench, strategy, precision)


def reduced_twice(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    replicated.apply_locally = lambda optimizer: None
    return self_test.run(bench, strategy, precision)


def one_seed_for_all(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    self_test.split_seeds = lambda model, first: None
    return self_test.run(bench, strategy, precision)


def mean_of_means(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    """Each replica divides by its own sum of weights, as `model.fit` does."""
    accumulated = Step.accumulated

    def averaged(self: Step, batch: Any) -> list[tf.Tensor]:
        loss, weight, *rest = accumulated(self, batch)
        gradients = [gradient / weight for gradient in rest[2:]]
        return [loss, tf.ones(()), *rest[:2], *gradients]

    Step.accumulated = averaged  # type: ignore[method-assign]
    return self_test.run(bench, strategy, precision)


def never_skipped(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    """The optimizer gets numbers of which it cannot see that they are none."""
    import keras

    apply = keras.optimizers.LossScaleOptimizer.apply

    def without_nan(self: Any, gradients: list[tf.Tensor], variables: Any) -> None:
        apply(self, [tf.where(tf.math.is_finite(gradient), gradient, 1.0) for gradient in gradients], variables)

    keras.optimizers.LossScaleOptimizer.apply = without_nan
    return self_test.run(bench, strategy, precision)


def last_micro_batch_only(bench: Workbench, strategy: Any, precision: Any) -> dict[str, float]:
    from tasks.training.engines.tensorflow import segmented_steps

    segmented_steps.Total.add = lambda self, tensors: setattr(self, "values", tensors)  # type: ignore[method-assign]
    return self_test.run(bench, strategy, precision)


@pytest.mark.parametrize(
    ("fault", "precision", "says"),
    [
        (clipped_before_the_reduce, "float32", "weights differ by"),
        (reduced_twice, "float32", "weights differ by"),
        (mean_of_means, "bfloat16", "weights differ by"),
        (one_seed_for_all, "float32", "1 different dropout masks; each of 2 replicas drops other units"),
        (never_skipped, "float16", "a NaN gradient on one replica changed the weights"),
    ],
)
def test_every_fault_is_found(fault: Any, precision: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=f"train.strategy: {says}"):
        verdict(tmp_path, Mirrored(), precision, function=fault)


def test_a_pipeline_that_loses_micro_batches_is_found(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="train.strategy: weights differ by"):
        verdict(tmp_path, Pipeline(), "float32", function=last_micro_batch_only)


def test_a_strategy_is_tested_once_and_the_verdict_is_in_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    tested = []

    def work(self: Attempt, stage: str, work: Work[Any], staging: None, **rest: Any) -> Any:
        tested.append(work.arguments)
        return {"weights": 1e-8}

    monkeypatch.setattr(Attempt, "work", work)
    config = load(DIGITS).train
    two, half = {"strategy": Mirrored()}, {"precision": "float16"}
    stages = [{"strategy": Pipeline(devices=devices, micro_batches=8)} for devices in (2, 3)]
    for options in (two, {}, two, {**two, **half}, half, half, {"precision": "bfloat16"}, *stages):
        request, of_run = RunRequest(new=True), config.model_copy(update=options)
        attempt_run("training", load(DIGITS), lambda of_run=of_run: check_strategy(of_run), request, None)
        assert request.run is not None
        tests = bool(options) and options != {"precision": "bfloat16"}
        assert ("train/self_test" in request.run.measurements()) == tests
    of_stages = (Pipeline(devices=2, micro_batches=4), "float32")
    assert tested == [(Mirrored(), "float32"), (Mirrored(), "float16"), (OneDevice(), "float16"), of_stages]
