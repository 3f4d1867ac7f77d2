"""One step of a small model in numbers that NumPy computes, and which of its figures are measured when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tasks.errors import Failed
from tasks.models.features import Input
from tasks.models.layers import count_weights, embedded, head, initialise, input_layer, layer_seed, name_operations
from tasks.training import board
from tasks.training.board import Trace, written_in
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.engine import check_layers, make_objective
from tasks.training.engines.tensorflow.optimizers import make_optimizer
from tasks.training.engines.tensorflow.step import (
    FINITE,
    HALF_SQUARES,
    NORM,
    SCALE,
    SHIFT,
    SKIPPED,
    Step,
    looped,
    packed,
    power_of_two,
    split_seeds,
    unpacked,
)
from tasks.training.engines.tensorflow.watching import POINTS, Watched
from tasks.training.meter import Meter
from tasks.training.optimizers import Sgd
from tasks.training.strategies import Mirrored, MultiWorker, OneDevice, ParameterServer, Pipeline, Strategy
from tests.support.refusals import field_of

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [2.0, 2.0]], np.float32)
TARGET = np.array([[1.0], [2.0], [0.0], [-1.0]], np.float32)
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0], np.float32)
KERNEL = np.array([[0.5], [-0.25]], np.float32)
RATE = 0.1


def step_of(precision: str = "float32", **options: Any) -> Step:
    """A step of a dense layer without bias, by plain descent."""
    inputs = keras.Input((2,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False, name="line")(inputs))
    model.trainable_variables[0].assign(KERNEL)
    snapshot: Any = SimpleNamespace(features={}, arrays=None)
    optimizer = make_optimizer(Sgd(), model.trainable_variables, precision)
    optimizer.learning_rate = RATE
    return Step(model, optimizer, make_objective("regression", TrainConfig(steps=1), snapshot), **options)


def batch(weight: np.ndarray = WEIGHT, target: np.ndarray = TARGET) -> dict[str, Any]:
    return {name: tf.constant(values) for name, values in (("x", X), ("target", target), ("weight", weight))}


def taken(
    step: Step, given: dict[str, Any] | None = None, reduce: Callable[[Any], Any] = list
) -> dict[str, np.ndarray]:
    found = step(given or batch(), reduce)
    return {name: np.asarray(value) for name, value in found.items()} | {"kernel": np.asarray(step.variables[0])}


ERRORS = X @ KERNEL - TARGET
GRADIENT = 2 * X.T @ (WEIGHT[:, None] * ERRORS) / WEIGHT.sum()
LENGTH = float(np.linalg.norm(GRADIENT))


@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_a_step_descends_by_the_gradient_of_the_weighted_mean(accumulate: int) -> None:
    found = taken(step_of(accumulate=accumulate, watched=True))
    np.testing.assert_allclose(found["kernel"], KERNEL - RATE * GRADIENT, rtol=1e-5)
    assert found["loss"] == pytest.approx(float((WEIGHT[:, None] * ERRORS**2).sum()), rel=1e-5)
    assert (found["weight"], found["seen"], found[FINITE], found[SKIPPED], found[SCALE]) == (3.5, 3.0, 1, 0, 1)
    assert found[NORM] == pytest.approx(LENGTH, rel=1e-5)
    np.testing.assert_allclose(found[HALF_SQUARES], [LENGTH**2 / 2], rtol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_example_counts_in_the_mean_by_the_weight_of_its_class(accumulate: int) -> None:
    """Weights of examples and of classes are multiplied; the mean is over their sum, not over that of the first."""
    inputs = keras.Input((2,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2, use_bias=False, name="line")(inputs))
    kernel, of_class = np.array([[0.5, 0.1], [-0.25, 0.2]], np.float32), np.array([3.0, 0.5], np.float32)
    model.trainable_variables[0].assign(kernel)
    snapshot: Any = SimpleNamespace(features={"label": {"classes": ["a", "b"]}}, arrays=None)
    config = TrainConfig(steps=1, class_weights={"a": 3.0, "b": 0.5})
    optimizer = make_optimizer(Sgd(), model.trainable_variables, "float32")
    optimizer.learning_rate = RATE
    label = np.array([0, 1, 1, 0])
    given = {"x": tf.constant(X), "label": tf.constant(label), "weight": tf.constant(WEIGHT)}
    found = taken(
        Step(model, optimizer, make_objective("classification", config, snapshot), accumulate=accumulate), given
    )
    weights, chances = WEIGHT * of_class[label], np.exp(X @ kernel)
    errors = chances / chances.sum(1, keepdims=True) - np.eye(2)[label]
    gradient = X.T @ (weights[:, None] * errors) / weights.sum()
    np.testing.assert_allclose(found["kernel"], kernel - RATE * gradient, rtol=1e-4)
    assert (found["weight"], found["seen"]) == (weights.sum(), 3.0) == (4.25, 3.0)


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_a_gradient_is_clipped_where_it_is_longer_and_its_norm_is_that_before(share: float) -> None:
    found = taken(step_of(clip_norm=share * LENGTH))
    np.testing.assert_allclose(found["kernel"], KERNEL - RATE * min(share, 1.0) * GRADIENT, rtol=1e-5)
    assert found[NORM] == pytest.approx(LENGTH, rel=1e-5)


def test_sums_of_all_replicas_are_those_of_the_global_batch() -> None:
    """The other replica has the same slice."""
    found = taken(step_of(), reduce=lambda tensors: [2 * each for each in tensors])
    np.testing.assert_allclose(found["kernel"], KERNEL - RATE * GRADIENT, rtol=1e-5)
    assert (found["weight"], found["seen"]) == (7.0, 6.0) and found[NORM] == pytest.approx(LENGTH, rel=1e-5)


def test_a_batch_without_weight_changes_nothing() -> None:
    found = taken(step_of(), batch(weight=np.zeros(4, np.float32)))
    np.testing.assert_array_equal(found["kernel"], KERNEL)
    assert (found["loss"], found[NORM], found[FINITE]) == (0, 0, 1)


def test_a_step_that_is_not_finite_says_so() -> None:
    found = taken(step_of(), batch(target=np.array([[1.0], [np.nan], [0.0], [1.0]], np.float32)))
    assert (found[FINITE], found[SKIPPED]) == (0, 0)


def test_of_a_scaled_loss_figures_and_update_are_without_the_scale() -> None:
    step = step_of("float16", watched=True)
    found = taken(step)
    np.testing.assert_allclose(found["kernel"], KERNEL - RATE * GRADIENT, rtol=1e-4)
    assert found[SCALE] == 2.0**15 and found[NORM] == pytest.approx(LENGTH, rel=1e-4)
    np.testing.assert_allclose(found[HALF_SQUARES], [LENGTH**2 / 2], rtol=1e-4)
    clipped = taken(step_of("float16", clip_norm=LENGTH / 2))
    np.testing.assert_allclose(clipped["kernel"], KERNEL - RATE * GRADIENT / 2, rtol=1e-4)
    lost = taken(step_of("float16"), batch(target=np.full((4, 1), np.inf, np.float32)))
    assert (lost[SKIPPED], lost[FINITE]) == (1, 0), "the loss itself is not finite"
    np.testing.assert_array_equal(lost["kernel"], KERNEL)


def test_a_loss_is_divided_by_a_power_of_two_near_the_number_of_its_terms() -> None:
    assert [power_of_two(tf.zeros((count,))) for count in (1, 2, 3, 5, 6, 1000)] == [1, 2, 4, 4, 8, 1024]
    assert power_of_two(tf.zeros((4, 8))) == 32


def test_results_of_steps_in_a_loop_come_back_by_name_in_order() -> None:
    step: Any = SimpleNamespace(returned=("a", HALF_SQUARES, "b"), variables=[1, 2, 3])

    def one(k: Any) -> Any:
        number = tf.cast(k, tf.float32)
        return packed(step, {"b": number + 0.5, "a": number, HALF_SQUARES: tf.stack([number] * 3) * [1.0, 2.0, 3.0]})

    found = unpacked(step, looped(one, tf.constant(4)).numpy())
    assert found["a"].tolist() == [0, 1, 2, 3] and found["b"].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert found[HALF_SQUARES].tolist() == [[k, 2 * k, 3 * k] for k in range(4)]


def test_updates_are_measured_at_the_first_points_and_then_at_each_fifth() -> None:
    variable = keras.Variable(np.array([3.0, 4.0], np.float32), name="w")
    watched, calls = Watched([variable], log_every=10), list[int]()

    def run(batches: Any, rates: np.ndarray) -> dict[str, np.ndarray]:
        calls.append(len(rates))
        assert len(batches["x"]) == len(rates)
        variable.assign(variable - 0.5 * len(rates))
        return {"loss": rates, HALF_SQUARES: np.full((len(rates), 1), 2.0)}

    def at(until: int, steps: int) -> tuple[list[int], list[str], list[float]]:
        variable.assign([3.0, 4.0])
        calls.clear()
        returned, figures = watched.run(run, {"x": np.zeros(steps)}, np.arange(steps), until)
        assert HALF_SQUARES not in returned
        return list(calls), sorted(figures), returned["loss"].tolist()

    gradients, updates = ["gradient_norm/w"], ["update_ratio", "update_ratio/w"]
    assert at(9, 3) == ([3], [], [0, 1, 2]), "no point of the curves"
    assert at(10, 3) == ([2, 1], gradients + updates, [0, 1, 2]), "the last step is a call of its own"
    assert at(10, 1) == ([1], gradients + updates, [0])
    assert at(10 * POINTS, 2)[1] == at(20 * POINTS, 2)[1] == gradients + updates
    assert at(10 * (POINTS + 1), 2) == ([2], gradients, [0, 1])
    variable.assign([3.0, 4.0])
    _, figures = watched.run(run, {"x": np.zeros(1)}, np.arange(1), 10)
    assert figures["gradient_norm/w"] == 2.0 and figures["update_ratio"] == pytest.approx(np.sqrt(0.5) / 5)


def test_replicas_of_all_processes_draw_apart() -> None:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dropout(0.5, seed=3)(inputs))
    [state] = [each for each in model.variables if each.path.endswith("seed_generator_state")]
    before = np.asarray(state).astype(np.int64)
    split_seeds(model, 5)
    after = np.asarray(state).astype(np.int64)
    assert after[0] == (before[0] + 5 * SHIFT) % 2**32 and after[1] == before[1]
    split_seeds(model, 0)
    assert np.asarray(state)[0] == after[0], "the first replica's stays"


def test_the_profiler_runs_between_its_steps_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    told: list[str] = []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: told.append("start"))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: told.append("stop"))
    trace, engine = Trace(tmp_path, (3, 6)), SimpleNamespace()
    said = []
    for step in range(1, 9):
        trace(step, Meter(), engine)  # type: ignore[arg-type]
        said.append(len(told))
    assert told == ["start", "stop"] and said == [0, 0, 1, 1, 1, 2, 2, 2]
    trace.stop()
    late = Trace(tmp_path, (3, 6))
    late(7, Meter(), engine)  # type: ignore[arg-type]
    assert told == ["start", "stop"], "a training that goes on behind them traces nothing"
    (tmp_path / "a" / board.FOLDER).mkdir(parents=True)
    assert written_in(tmp_path) == tmp_path / "a" / board.FOLDER


def test_numbers_are_standardised_pixels_scaled_and_others_as_they_are() -> None:
    def made(feature: Input, values: np.ndarray) -> np.ndarray:
        return np.asarray(keras.Model(*input_layer(feature))(values))

    numbers = Input("n", (2,), "float32", statistics=([1.0, 2.0], [4.0, 0.25]))
    np.testing.assert_allclose(made(numbers, np.array([[3.0, 3.0]], np.float32)), [[1.0, 2.0]], rtol=1e-5)
    pixels = made(Input("p", (3,), "uint8"), np.array([[0, 51, 255]], np.uint8))
    np.testing.assert_allclose(pixels, [[-1.0, -0.6, 1.0]], atol=1e-6)
    assert made(Input("k", (1,), "float32"), np.array([[7.0]], np.float32)).tolist() == [[7.0]]


def test_a_text_is_the_mean_of_its_tokens_vectors_without_the_padding() -> None:
    feature = Input("text", (4,), "int32", sizes=(5,), padded=True)
    model = keras.Model(*embedded(feature, 3, seed=1))
    table = np.asarray(model.get_layer("text_embedding").embeddings)
    found = np.asarray(model(np.array([[2, 4, 0, 0], [0, 0, 0, 0]], np.int32)))
    np.testing.assert_allclose(found[0, 0], (table[2] + table[4]) / 2, rtol=1e-5)
    assert not found[1].any()


def test_ids_of_columns_have_rows_of_one_table_one_column_after_the_other() -> None:
    feature = Input("categories", (3,), "int32", sizes=(2, 3, 4))
    model = keras.Model(*embedded(feature, 2, seed=1))
    table = np.asarray(model.get_layer("categories_embedding").embeddings)
    assert table.shape == (9, 2)
    found = np.asarray(model(np.array([[1, 0, 3]], np.int32)))
    np.testing.assert_array_equal(found[0], table[[1, 2, 8]])


def test_outputs_of_a_regression_are_in_the_targets_units() -> None:
    inputs = keras.Input((2,))
    target = {"shape": [2], "names": ["a", "b"], "mean": [10.0, -1.0], "variance": [4.0, 0.25]}
    outputs = head(inputs, {"target": {"dtype": "float32", **target}}, "regression", 1)
    model = keras.Model(inputs, outputs)
    model.get_layer("logits").kernel.assign(np.eye(2))
    np.testing.assert_allclose(np.asarray(model(np.array([[1.0, 2.0]], np.float32))), [[12.0, 0.0]], rtol=1e-6)
    again = keras.Model(inputs, head(inputs, {"target": {"dtype": "float32", **target}}, "multilabel", 1))
    assert [layer.name for layer in again.layers][-1] == "logits"


def test_an_initializer_is_a_function_of_the_seed_and_the_layers_name() -> None:
    def kernels(seed: int) -> list[np.ndarray]:
        inputs = keras.Input((4,), name="x")
        hidden = keras.layers.Dense(4, name="first")(inputs)
        hidden = keras.layers.Dense(4, name="second")(hidden)
        model = keras.Model(inputs, keras.layers.Dense(4, name="logits")(hidden))
        before = np.asarray(model.get_layer("logits").kernel)
        initialise(model, "HeNormal", seed)
        np.testing.assert_array_equal(before, np.asarray(model.get_layer("logits").kernel))
        return [np.asarray(model.get_layer(name).kernel) for name in ("first", "second")]

    one, again, other = kernels(1), kernels(1), kernels(2)
    np.testing.assert_array_equal(one, again)
    assert (one[0] != one[1]).any() and (one[0] != other[0]).any()
    assert layer_seed(1, "a") != layer_seed(1, "b") != layer_seed(2, "b") and 0 <= layer_seed(1, "a") < 2**31


def test_weights_of_a_training_alone_are_not_counted_and_operations_are_named_by_order() -> None:
    inputs = keras.Input((3,), name="x")
    extra = keras.layers.Dense(2, name="extra")
    model = keras.Model(inputs, extra(keras.layers.Dense(2, name="kept")(inputs)) * 2.0 + 1.0)
    assert count_weights(model) == 8 + 6
    extra.only_in_training = True
    assert count_weights(model) == 8
    names = [operation.name for operation in name_operations(model).operations]
    assert names[:3] == ["x", "kept", "extra"] and names[3:] == ["op000_multiply", "op001_add"]


@pytest.mark.parametrize(
    ("strategy", "accumulate", "synchronized", "field"),
    [
        (OneDevice(), 1, False, None),
        (OneDevice(), 2, True, "train.accumulate"),
        (Pipeline(micro_batches=1), 1, False, None),
        (Pipeline(micro_batches=2), 1, True, "train.accumulate"),
        (Mirrored(), 1, True, None),
        (Mirrored(), 1, False, "train.strategy"),
        (Mirrored(), 2, True, "train.accumulate"),
        (MultiWorker(), 1, False, "train.strategy"),
        (ParameterServer(), 1, True, "train.strategy"),
    ],
)
def test_a_batch_norm_is_trained_where_it_sees_the_whole_batch_and_nowhere_else(
    strategy: Strategy, accumulate: int, synchronized: bool, field: str | None
) -> None:
    inputs = keras.Input((2,))
    normed = keras.Model(inputs, keras.layers.BatchNormalization(synchronized=synchronized)(inputs))
    of_each = keras.Model(inputs, keras.layers.LayerNormalization()(inputs))
    config: Any = SimpleNamespace(accumulate=accumulate, strategy=strategy)
    check_layers(of_each, config)
    assert field_of(Failed, lambda: check_layers(normed, config)) == field
