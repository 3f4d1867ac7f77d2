"""The loss and the metrics of each task in numbers that NumPy computes, and what the engine makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tasks.errors import Failed
from tasks.feed.augmenter import MIXED, OTHER_LABEL, OTHER_WEIGHT
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.engine import make_objective
from tasks.training.engines.tensorflow.optimizers import averages, make_optimizer, scale_rates
from tasks.training.engines.tensorflow.scoring import Scoring
from tasks.training.engines.tensorflow.step import without_padding
from tasks.training.engines.tensorflow.watching import OTHERS, Groups, grouped
from tasks.training.engines.tensorflow.weights import Weights, adapt, belongs, merged
from tasks.training.group import Alone, Cluster
from tasks.training.optimizers import Adam, AdamW, Sgd, named
from tasks.training.sections import Lora
from tests.support.homes import ROOT
from tests.support.objectives import sums_of_each

LOGITS = np.array([[2.0, -1.0, 0.5], [0.0, 0.25, 3.0]], np.float32)
WEIGHT = np.array([1.0, 0.5], np.float32)


def snapshot_of(**features: Any) -> Any:
    arrays = {"target": np.array([[0.0], [1.0]], np.float32)}
    return SimpleNamespace(features={"target": {"shape": [1]}} | features, arrays=lambda split: arrays)


def scored(task: str, batch: dict[str, Any], outputs: np.ndarray, plain: bool = False, **options: Any) -> Any:
    features = options.pop("features", {})
    objective = make_objective(task, TrainConfig(steps=1, **options), snapshot_of(**features))
    tensors = {name: tf.constant(values) for name, values in batch.items()}
    return (objective.plain() if plain else objective)(tensors, tf.constant(outputs))


def sums(result: Any) -> dict[str, float]:
    return {name: float(value) for name, value in result.sums().items()}


def sigmoid_losses(target: np.ndarray, logits: np.ndarray) -> np.ndarray:
    chance = 1 / (1 + np.exp(-logits.astype(np.float64)))
    return -(target * np.log(chance) + (1 - target) * np.log(1 - chance))


def softmax_losses(label: np.ndarray, logits: np.ndarray) -> np.ndarray:
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(chances, label[..., None], -1)[..., 0])


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_each_label_of_several_counts_with_the_examples_weight(smoothing: float) -> None:
    target = np.array([[1, 0, 0], [1, 1, 1]], np.float32)
    batch = {"target": target, "weight": WEIGHT}
    result = scored("multilabel", batch, LOGITS, label_smoothing=smoothing)
    expected = sigmoid_losses(target * (1 - smoothing) + smoothing / 2, LOGITS)
    np.testing.assert_allclose(result.losses, expected, rtol=1e-5)
    found = sums(result)
    assert found["loss"] == pytest.approx(float((expected * WEIGHT[:, None]).sum()), rel=1e-5)
    assert (found["weight"], found["seen"]) == (4.5, 6.0)
    assert found["accuracy"] == (1 + 1 + 0) + (0 + 1 + 1), "a logit of 0 is not above one half"
    plain = scored("multilabel", batch, LOGITS, plain=True, label_smoothing=smoothing)
    np.testing.assert_allclose(plain.losses, sigmoid_losses(target, LOGITS), rtol=1e-5)


@pytest.mark.parametrize("task", ["anomaly", "ranking"])
def test_a_task_of_one_rare_answer_has_its_options(task: str) -> None:
    objective = make_objective(task, TrainConfig(steps=1, label_smoothing=0.25), snapshot_of())
    assert (objective.smoothing, objective.loss) == (0.25, "binary_cross_entropy")
    with pytest.raises(Failed, match="one target, 1 for"):
        make_objective(task, TrainConfig(steps=1), snapshot_of(target={"shape": [2]}))


@pytest.mark.parametrize(("loss", "power"), [(None, 2), ("squared_error", 2), ("absolute_error", 1)])
def test_an_error_of_a_number_is_squared_or_absolute_and_its_metric_always_squared(loss: Any, power: int) -> None:
    target = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]], np.float32)
    result = scored("regression", {"target": target, "weight": WEIGHT}, LOGITS, loss=loss)
    errors = np.abs(LOGITS - target)
    np.testing.assert_allclose(result.losses, errors**power, rtol=1e-6)
    found = sums(result)
    assert found["loss"] == pytest.approx(float((errors**power * WEIGHT[:, None]).sum()), rel=1e-6)
    assert found["squared_error"] == pytest.approx(float((errors**2).sum()), rel=1e-6)
    assert (found["weight"], found["seen"]) == (4.5, 6.0)


TOKENS = np.array([[9, 1, 2, 9], [9, 0, 9, 9]], np.int32)


def test_a_language_model_is_scored_at_the_tokens_that_follow_but_bos() -> None:
    """A row has a token more than there are outputs; BOS begins a document, or is padding."""
    outputs = np.random.default_rng(1).normal(size=(2, 3, 10)).astype(np.float32)
    batch = {"tokens": TOKENS, "weight": WEIGHT}
    result = scored("language_model", batch, outputs, features={"tokens": {"bos": 9}})
    weights = np.array([[1, 1, 0], [0.5, 0, 0]])
    np.testing.assert_array_equal(result.weights, weights)
    np.testing.assert_array_equal(result.seen, weights > 0)
    np.testing.assert_allclose(result.losses, softmax_losses(TOKENS[:, 1:], outputs), rtol=1e-5)
    right = outputs.argmax(-1) == TOKENS[:, 1:]
    assert sums(result)["accuracy"] == float(((weights > 0) & right).sum())
    objective = make_objective("language_model", TrainConfig(steps=1), snapshot_of(tokens={"bos": 9}))
    assert objective.inputs(None, {"tokens": tf.constant(TOKENS)}).shape == (2, 3)


def test_of_a_pair_what_the_snapshot_says_is_scored_its_end_too() -> None:
    outputs = np.zeros((2, 3, 10), np.float32)
    marked = np.array([[0, 0, 1, 1], [0, 1, 1, 0]], np.uint8)
    batch = {"tokens": TOKENS, "weight": WEIGHT, "scored": marked}
    result = scored("language_model", batch, outputs, features={"tokens": {"bos": 9}})
    np.testing.assert_array_equal(result.weights, [[0, 1, 1], [0.5, 0.5, 0]])


def test_a_word_without_a_tag_counts_nowhere_and_classes_weigh_as_given() -> None:
    tags = np.array([[2, 0, -1, -1], [1, -1, -1, -1]], np.int32)
    outputs = np.random.default_rng(2).normal(size=(2, 3, 3)).astype(np.float32)  # a column of padding is left out
    classes = {"label": {"classes": ["a", "b", "c"]}}
    given = {"a": 1.0, "b": 2.0, "c": 4.0}
    batch = {"label": tags, "weight": WEIGHT}
    result = scored("tagging", batch, outputs, features=classes, class_weights=given)
    np.testing.assert_array_equal(result.seen, [[1, 1, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(result.weights, [[4, 1, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(
        np.asarray(result.losses)[tags >= 0],
        softmax_losses(np.maximum(tags, 0)[:, :3], outputs)[tags[:, :3] >= 0],
        rtol=1e-5,
    )
    plain = scored("tagging", batch, outputs, plain=True, features=classes, class_weights=given)
    np.testing.assert_array_equal(plain.weights, [[1, 1, 0, 0], [0.5, 0, 0, 0]])


def test_a_class_counts_by_its_weight_in_the_loss_alone() -> None:
    label = np.array([2, 0], np.int64)
    given = {"a": 3.0, "b": 1.0, "c": 2.0}
    features = {"label": {"classes": ["a", "b", "c"]}}
    result = scored(
        "classification", {"label": label, "weight": WEIGHT}, LOGITS, features=features, class_weights=given
    )
    found, losses = sums(result), softmax_losses(label, LOGITS)
    assert found["loss"] == pytest.approx(2 * losses[0] + 1.5 * losses[1], rel=1e-5)
    assert (found["weight"], found["seen"], found["accuracy"]) == (3.5, 2.0, 0.0)


def test_a_mixed_example_counts_once_whatever_the_weights_of_both() -> None:
    batch = {
        "label": np.array([0, 2, 0], np.int64),
        "weight": np.array([4.0, 0.5, 0.0], np.float32),  # the last one fills the batch up
        MIXED: np.array([0.25, 0.5, 0.0], np.float32),
        OTHER_LABEL: np.array([1, 0, 0], np.int64),
        OTHER_WEIGHT: np.array([8.0, 0.25, 0.0], np.float32),
    }
    logits = np.concatenate([LOGITS, LOGITS[:1]])
    found = sums(scored("classification", batch, logits, features={"label": {"classes": ["a", "b", "c"]}}))
    assert found["weight"] == (0.75 * 4 + 0.25 * 8) + (0.5 * 0.5 + 0.5 * 0.25)
    assert (found["seen"], found["accuracy"]) == (2.0, 2.0)


class Identity:
    """A model whose outputs are its input `x`."""

    inputs = [SimpleNamespace(name="x", dtype="float32")]

    def __call__(self, inputs: Any, training: bool) -> Any:
        assert training is False
        return inputs


class Shared:
    """The group of a process of several, which are asked one after the other."""

    def __init__(self, rank: int, size: int, total: list[int]) -> None:
        self.cluster, self.total = Cluster(rank, ("a:1",) * size), total

    def totals(self, values: list[int]) -> list[int]:
        self.total[:] = [a + b for a, b in zip(self.total, values, strict=True)] if self.total else list(values)
        return self.total


def batches() -> list[dict[str, np.ndarray]]:
    draws = np.random.default_rng(4)
    made = []
    for weight in ([1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0]):
        target = draws.normal(size=(4, 2)).astype(np.float32)
        x = draws.normal(size=(4, 2)).astype(np.float32)
        made.append({"x": x, "target": target, "weight": np.array(weight, np.float32), "row": np.arange(4)})
    return made


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_score_is_the_mean_over_all_examples_whoever_scores_which_batch(size: int) -> None:
    objective = make_objective("regression", TrainConfig(steps=1), snapshot_of())
    given, total, samples, scores = batches(), list[int](), [], {}
    for rank in range(size):
        scoring = Scoring(Identity(), objective, Shared(rank, size, total))  # type: ignore[arg-type]
        scores = scoring.score(given)
        samples.append(scoring.samples)
    rows = np.concatenate([(each["x"] - each["target"])[each["weight"] > 0] for each in given])
    assert scores["loss"] == pytest.approx(float((rows**2).mean()), rel=1e-6)
    np.testing.assert_array_equal(samples[0], given[0]["x"])
    assert samples[1:] == [None] * (size - 1), "who has not scored the first batch shows nothing"


def test_an_example_that_weighs_more_counts_once_in_a_score_but_for_the_loss() -> None:
    objective = make_objective("regression", TrainConfig(steps=1), snapshot_of())
    given = batches()
    for batch, weight in zip(given, ([3, 1, 1, 0.5], [1, 1, 8, 1], [0.25, 1, 0, 0]), strict=True):
        batch["weight"] = np.array(weight, np.float32)
    scores = Scoring(Identity(), objective, Alone()).score(given)  # type: ignore[arg-type]
    squares = np.concatenate([((each["x"] - each["target"]) ** 2).mean(axis=1) for each in given])
    weights = np.concatenate([each["weight"] for each in given])
    assert scores["squared_error"] == pytest.approx(float(squares[weights > 0].mean()), rel=1e-6)
    assert scores["loss"] == pytest.approx(float(weights @ squares / weights.sum()), rel=1e-6)


def test_samples_are_without_the_rows_that_fill_a_batch_up() -> None:
    objective = make_objective("regression", TrainConfig(steps=1), snapshot_of())
    scoring = Scoring(Identity(), objective, Alone())  # type: ignore[arg-type]
    last = batches()[2]
    scoring.score([last])
    np.testing.assert_array_equal(scoring.samples, last["x"][:2])


def test_columns_of_padding_are_left_out_up_to_a_multiple() -> None:
    tokens = np.zeros((2, 50), np.int32)
    assert without_padding(tf.constant(tokens)).shape[1] == 16, "of padding alone one multiple is left"
    for used, left in ((1, 16), (16, 16), (17, 32), (48, 48), (49, 50)):
        tokens[:] = 0
        tokens[1, used - 1] = 7
        assert without_padding(tf.constant(tokens)).shape[1] == left


def test_norms_of_groups_are_added_as_squares_and_many_groups_share_the_last() -> None:
    groups = Groups(("a", "b"), (0, 1, 0))
    np.testing.assert_allclose(groups.norms(np.array([2.0, 8.0, 6.0])), [np.sqrt(32), 4.0, 4.0])
    assert groups.by_name(np.array([1.0, 2.0, 3.0])) == {"": 1.0, "/a": 2.0, "/b": 3.0}
    many = grouped([f"layer{number:03d}x/kernel" for number in range(60)] + ["layer000x/bias"])
    assert len(many.names) == 50 and many.names[-1] == OTHERS
    assert many.numbers[48:60] == (48, *[49] * 11) and many.numbers[60] == 0


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("query", True),
        ("block_0", True),
        ("block_0/attention", True),
        ("block_0/att*", True),
        ("attention/query", False),
        ("kernel", False),
        ("block_0/attention/query/kernel", False),
        ("Query", False),
    ],
)
def test_a_pattern_names_a_layer_by_its_path_its_parents_or_its_name(pattern: str, names: bool) -> None:
    assert named("block_0/attention/query/kernel", pattern) is names


def network() -> keras.Model:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, name="hidden")(inputs)
    return keras.Model(inputs, keras.layers.Dense(2, name="logits")(hidden))


def adapted(**options: Any) -> tuple[keras.Model, Any]:
    model = network()
    return model, adapt(model, TrainConfig(steps=1, lora=Lora(**({"rank": 2, "targets": ("hidden",)} | options))), 5)


def test_low_rank_matrices_alone_are_trained_and_the_layers_that_are_named_whole() -> None:
    model, [(kernel, a, b, scale)] = adapted(also=("logits",))
    trained = {variable.path for variable in model.trainable_variables}
    assert trained == {"hidden/lora_kernel_a", "hidden/lora_kernel_b", "logits/kernel", "logits/bias"}
    assert kernel.path == "hidden/kernel" and scale == 1.0, "alpha is the rank by default"
    assert np.asarray(a).std() > 0 and not np.asarray(b).any(), "so that it begins as the model that is adapted"
    other, [(_, again, _, _)] = adapted()
    np.testing.assert_array_equal(a, again)
    assert {variable.path for variable in other.trainable_variables} == {"hidden/lora_kernel_a", "hidden/lora_kernel_b"}


def test_the_merged_kernel_computes_what_the_adapted_layer_does() -> None:
    model, [(_, a, b, scale)] = adapted(alpha=5.0)
    assert scale == 2.5
    b.assign(np.random.default_rng(1).normal(size=b.shape))
    values = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
    expected = np.asarray(model.get_layer("hidden")(values))
    whole = merged(*(np.asarray(each) for each in (model.get_layer("hidden")._kernel, a, b)), scale)
    np.testing.assert_allclose(
        values @ whole + np.asarray(model.get_layer("hidden").bias), expected, rtol=1e-4, atol=1e-5
    )


def test_frozen_layers_are_those_that_a_pattern_names_and_one_is_left() -> None:
    model = network()
    assert adapt(model, TrainConfig(steps=1, freeze=("hid*",)), 5) == []
    assert [variable.path for variable in model.trainable_variables] == ["logits/kernel", "logits/bias"]
    assert belongs(model.get_layer("hidden"), "hidden") and not belongs(model.get_layer("hidden"), "logits")
    with pytest.raises(Failed, match="names all layers, and nothing is left to train"):
        adapt(network(), TrainConfig(steps=1, freeze=("*",)), 5)


def variables() -> list[keras.Variable]:
    return [keras.Variable(np.ones((2, 2), np.float32), name=name) for name in ("first", "second")]


def test_the_decay_of_a_layer_is_scaled_as_its_rate() -> None:
    """Without a gradient only the decay moves weights: by rate x factor x decay, and not where nothing decays."""
    for config, factors, left in (
        (Sgd(weight_decay=0.5), (1.0, 0.25), (1 - 0.1 * 0.5, 1 - 0.25 * 0.1 * 0.5)),
        (AdamW(weight_decay=0.5), (0.0, 2.0), (1.0, 1 - 2 * 0.1 * 0.5)),
        (Sgd(), (0.5, 0.25), (1.0, 1.0)),
    ):
        given = variables()
        optimizer = make_optimizer(config, given)
        scale_rates(optimizer, factors)
        optimizer.learning_rate = 0.1
        optimizer.apply([np.zeros((2, 2), np.float32)] * 2)
        np.testing.assert_allclose([np.asarray(each)[0, 0] for each in given], left, rtol=1e-6)


def test_averages_begin_at_the_weights_and_are_evaluated_and_left_as_they_were() -> None:
    given = variables()
    optimizer = make_optimizer(Adam(), given, ema=0.75)
    assert all(np.array_equal(average, variable) for variable, average in averages(optimizer))
    assert averages(make_optimizer(Adam(), variables())) == []
    weights = Weights(given, [], optimizer)
    weights.assign({"model/00000": np.full((2, 2), 3.0), "model/00001": np.full((2, 2), 5.0)})
    assert [float(np.asarray(average)[0, 0]) for _, average in averages(optimizer)] == [3.0, 5.0]
    given[0].assign(np.full((2, 2), 7.0))
    assert weights.arrays()["model/00000"][0, 0] == 3.0, "the model is that of the averages"
    with pytest.raises(KeyboardInterrupt), weights.averaged():
        assert float(np.asarray(given[0])[0, 0]) == 3.0
        raise KeyboardInterrupt
    assert float(np.asarray(given[0])[0, 0]) == 7.0, "an evaluation that ends by a signal too"


def test_the_loss_of_float16_alone_is_scaled_and_the_average_is_within() -> None:
    scaled = make_optimizer(Sgd(), given := variables(), "float16", ema=0.5)
    assert isinstance(scaled, keras.optimizers.LossScaleOptimizer) and float(scaled.scale_loss(1.0)) == 2.0**15
    assert [variable.path for variable, _ in averages(scaled)] == [variable.path for variable in given]
    for precision in ("float32", "bfloat16"):
        assert not isinstance(make_optimizer(Sgd(), variables(), precision), keras.optimizers.LossScaleOptimizer)


def test_objectives_have_the_same_values_on_jax() -> None:
    """In a process without TensorFlow."""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-m", "tests.support.objectives"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    on_jax, here = json.loads(done.stdout), sums_of_each()
    assert on_jax.keys() == here.keys()
    for name, values in here.items():
        assert on_jax[name] == pytest.approx(values, rel=1e-6), name
