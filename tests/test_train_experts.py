"""Mixtures of experts: as many as are chosen are used, and their loss keeps them balanced, exact in every layout."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tasks.artifacts import Outcome, Snapshot
from tasks.config.compose import load
from tasks.errors import Failed, Refused
from tasks.models import keras_file
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.models.layers.attention import chosen, experts, router_name
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.training.engines.tensorflow.step import weighted_sum
from tasks.training.fit import fit
from tasks.training.initial import FileInit
from tasks.training.optimizers import Adam, Sgd
from tasks.training.schedules import Constant
from tasks.training.strategies import Mirrored, Pipeline
from tests.support.homes import STDLIB_LM
from tests.support.tiny import CONFIG, write_hashes

FEATURES = {"tokens": {"dtype": "uint16", "shape": [17], "vocabulary": 20, "bos": 19}}
MODEL = TransformerModel(width=16, layers=2, heads=2, hidden=8, experts=4, experts_per_token=1)
ONE_BLOCK = MODEL.model_copy(update={"layers": 1})
PLAIN = CONFIG.model_copy(update={"schedule": Constant(), "optimizer": Adam(), "clip_norm": None})


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable) -> Snapshot:
    """Rows that count upwards, 22 to train on: the last batch of an epoch of 4 has rows of weight 0."""
    bench, random = workbench_at(tmp_path_factory.mktemp("texts") / "snapshot"), np.random.default_rng(1)
    counts = {"train": 22, "validation": 6, "test": 6}
    for split, count in counts.items():
        tokens = ((np.arange(17) + random.integers(0, 19, (count, 1))) % 19).astype(np.uint16)
        index = np.arange(count)
        extra = {"origin": np.stack([index, index], 1), "pieces": np.stack([index, 0 * index, 0 * index + 1], 1)}
        for name, values in {"tokens": tokens, **extra}.items():
            buffer = io.BytesIO()
            np.save(buffer, values)
            bench.staging.put(f"{split}/{name}-00000-of-00001.npy", buffer.getvalue())
        write_hashes(bench, split, count)
    made: Snapshot = publish(Snapshot, bench, Outcome(counts=counts, features=FEATURES))
    return made


def given(rows: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 19, (rows, 16), dtype=np.int32)


def shares(model: keras.Model) -> np.ndarray:
    """The share of the tokens that each expert of each block gets, [blocks, experts]."""
    routers = [layer.output for layer in model.layers if layer.name.endswith("_router")]
    logits = keras.tree.flatten(keras.Model(model.inputs[0], routers)(given(64)))
    return np.array([np.asarray(chosen(each, 1)).mean(axis=(0, 1)) for each in logits])


def weights(bench: Workbench) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable) for variable in keras_file.load(bench.staging.root).weights}


def distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    assert one.keys() == other.keys()
    return max(float(np.abs(one[path] - other[path]).max()) for path in one)


def test_a_token_uses_as_many_experts_as_it_is_given() -> None:
    equal = np.full((1, 2, 5), 0.2, np.float32)
    assert np.asarray(chosen(equal, 2)).tolist() == [[[1, 1, 0, 0, 0]] * 2], "of equal ones the first"
    random = np.random.default_rng(0).random((3, 7, 5)).astype(np.float32)
    mask = np.asarray(chosen(random, 2))
    assert (mask.sum(-1) == 2).all() and (random[mask == 0].reshape(3, 7, 3).max(-1) < 1).all()
    assert (np.where(mask == 1, random, np.inf).min(-1) > np.where(mask == 0, random, -np.inf).max(-1)).all()


def test_the_router_of_one_expert_learns_from_the_predictions() -> None:
    """Its probability is a factor of what the chosen expert says; divided by their sum it would always be 1."""
    tokens = keras.Input((5, MODEL.width))
    model = keras.Model(tokens, experts(tokens, MODEL, 0, seed=1))
    kernel = model.get_layer("block0_experts_out").kernel
    kernel.assign(np.random.default_rng(1).normal(size=kernel.shape))  # at first it is 0
    given = np.random.default_rng(2).normal(size=(2, 5, MODEL.width)).astype(np.float32)
    with tf.GradientTape() as tape:
        said = tf.reduce_sum(model(given) ** 2)
    gradient = tape.gradient(said, model.get_layer(router_name(0)).kernel.value)
    assert np.abs(gradient.numpy()).max() > 1e-3


def test_an_expert_that_is_not_chosen_changes_nothing() -> None:
    """The router sends all tokens to the expert 2; the weights of the others may be anything."""
    model = MODEL.build(FEATURES, seed=3)
    random = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(variable + random.normal(0, 0.1, variable.shape).astype("float32"))
    of = {variable.path: variable for variable in model.weights}
    for block in range(2):
        scale = np.asarray(of[f"block{block}_mlp_norm/scale"])
        of[f"block{block}_mlp_norm/scale"].assign(np.abs(scale))
        router = np.zeros((16, 4), np.float32)
        router[:, 2] = 50.0
        of[f"block{block}_router/kernel"].assign(router)
    probed = keras.Model(model.inputs[0], [model.get_layer(f"block{block}_router").output for block in range(2)])
    tokens = given(3)
    before = np.asarray(model(tokens))
    used = [np.asarray(chosen(keras.ops.softmax(each), 1)) for each in probed(tokens)]
    never = [[expert for expert in range(4) if not mask[..., expert].any()] for mask in used]
    assert never[0] and 2 not in never[0]
    for block, unused in enumerate(never):
        for expert in unused:
            for path, axis in ((f"block{block}_experts_gate_up/kernel", 1), (f"block{block}_experts_out/kernel", 0)):
                values = np.asarray(of[path]).copy()
                parts = np.split(values, values.shape[axis] // 8, axis=axis)
                for part in parts[expert::4]:
                    part += 7.0
                of[path].assign(np.concatenate(parts, axis=axis))
    np.testing.assert_array_equal(np.asarray(model(tokens)), before)


def test_the_added_loss_is_that_of_the_paper_for_each_sequence() -> None:
    model = MODEL.build(FEATURES, seed=3)
    added = MODEL.added_loss(model)
    tokens = given(5)
    routers = [model.get_layer(f"block{block}_router").output for block in range(2)]
    found, *logits = (np.asarray(each) for each in keras.Model(model.inputs[0], [added, *routers])(tokens))
    expected = np.zeros(5)
    for each in logits:
        probabilities = np.exp(each) / np.exp(each).sum(-1, keepdims=True)
        for row in range(5):
            counts = np.bincount(each[row].argmax(-1), minlength=4) / 16
            expected[row] += 4 * (counts * probabilities[row].mean(0)).sum()
    np.testing.assert_allclose(found, 0.01 * expected, rtol=1e-5)
    assert MODEL.model_copy(update={"balance_weight": 0.0}).added_loss(model) is None


def collapsed(path: Path) -> FileInit:
    """Initial weights with which nearly all tokens choose the expert 2: tokens have much in common, which it reads."""
    model = ONE_BLOCK.build(FEATURES, seed=3)
    for variable in model.weights:
        if variable.path == "embedding/embeddings":
            variable.assign(variable + 0.02)
        if variable.path.endswith("_router/kernel"):
            variable.assign(variable + 0.3 * np.eye(4)[2])
    model.save(path)
    return FileInit(path=str(path))


@pytest.mark.slow
def test_the_added_loss_spreads_the_tokens_over_the_experts(
    texts: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    start = collapsed(tmp_path / "collapsed.keras")
    assert (shares(keras.saving.load_model(start.path)).max(axis=1) > 0.9).all()
    most, added = {}, {}
    for weight in (0.0, 3.0):
        bench = benches(f"weight{weight}")
        options = {"steps": 15, "learning_rate": 0.01, "log_every": 5, "evaluate_every": 15, "init": start}
        fit(
            bench,
            texts,
            ONE_BLOCK.model_copy(update={"balance_weight": weight}),
            PLAIN.model_copy(update=options),
            seed=5,
        )
        most[weight] = shares(keras_file.load(bench.staging.root)).max(axis=1)
        points: list[tuple[int, dict[str, float]]] = bench.journal.points  # type: ignore[attr-defined]
        added[weight] = [values["train/added_loss"] for _, values in points if "train/added_loss" in values]
    assert (most[3.0] < 0.4).all() and (most[3.0] < most[0.0] - 0.1).all(), most
    assert added[0.0] == [] and len(added[3.0]) == 3
    assert 3.0 <= added[3.0][-1] < added[3.0][0], "1 at least"


def test_micro_batches_and_their_division_change_nothing(texts: Snapshot, benches: Callable[[str], Workbench]) -> None:
    """With rows of weight 0 in the last batch, which count nowhere."""
    model = ONE_BLOCK.model_copy(update={"balance_weight": 1.0})
    base = {"steps": None, "epochs": 1, "optimizer": Sgd(), "learning_rate": 0.1}
    made = []
    for accumulate in (1, 2):
        bench = benches(f"accumulate{accumulate}")
        fit(bench, texts, model, PLAIN.model_copy(update={**base, "accumulate": accumulate}), seed=5)
        made.append(weights(bench))
    assert distance(*made) < 3e-7


@pytest.mark.slow
def test_two_devices_balance_as_one(texts: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path) -> None:
    model = ONE_BLOCK.model_copy(update={"balance_weight": 1.0})
    config = PLAIN.model_copy(update={"optimizer": Sgd(), "learning_rate": 0.1})
    one, two = benches("one"), benches("two")
    fit(one, texts, model, config, seed=5)
    with ProcessLauncher(tmp_path, 2).gang("train") as gang:
        arguments = (texts, model, config.model_copy(update={"strategy": Mirrored(devices=2)}), 5)
        limits = Limits("resources.timeout", 120)
        journal, nothing = tmp_path / "two.jsonl", lambda *_: None
        gang.call(Work(fit, arguments), two.staging, journal, limits=limits, on_report=nothing)
    assert distance(weights(one), weights(two)) < 3e-7


def test_a_sum_of_added_losses_has_the_weights_of_the_predictions() -> None:
    weights = tf.constant([[1.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    of_rows, of_all = tf.constant([2.0, 4.0, 1000.0]), tf.constant(3.0)
    of_places = tf.constant([[1.0, 3.0], [4.0, 4.0], [7.0, 7.0]])
    assert float(weighted_sum([of_rows], weights)) == 2 * 2.0 + 0.5 * 4.0
    assert float(weighted_sum([of_places], weights)) == 2 * 2.0 + 0.5 * 4.0
    assert float(weighted_sum([of_rows, of_all], weights)) == 2 * 5.0 + 0.5 * 7.0


NETS = """
import keras
from keras import layers, ops

class Pull(layers.Layer):
    def call(self, x):
        self.add_loss(20.0 * ops.mean(ops.square(x), axis=-1))
        return x

def pulled(features, pull=(Pull,)):
    image = keras.Input(features["image"]["shape"], dtype="uint8", name="image")
    x = layers.Dense(8, name="first")(layers.Flatten()(layers.Rescaling(1 / 255)(image)))
    for layer in pull:
        x = layer()(x)
    return keras.Model(image, layers.Dense(2, name="second")(x))

def free(features):
    return pulled(features, pull=())

def regular(outputs):
    dense = layers.Dense(outputs, kernel_regularizer="l2", name="out")
    return keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), dense])

def plain(outputs):
    return keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(outputs, name="out")])
"""


@pytest.mark.slow
def test_losses_that_layers_add_are_minimised(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    """Outputs that are pulled to 0; a regularizer's step is that of its gradient, 2 x 0.01 x the kernel."""
    (tmp_path / "nets.py").write_text(NETS)

    def trained(name: str, **options: Any) -> dict[str, np.ndarray]:
        bench = benches(f"{name}{options}")
        model = ImportedModel(target=f"nets:{name}", folder=str(tmp_path))
        fit(bench, tiny, model, PLAIN.model_copy(update={"optimizer": Sgd(), "learning_rate": 0.01, **options}), 5)
        return {path.removeprefix("model/"): values for path, values in weights(bench).items()}

    one, two = trained("pulled", steps=100), trained("pulled", steps=100, accumulate=2)
    assert distance(one, two) < 3e-7
    free = trained("free", steps=100)
    assert np.linalg.norm(one["first/kernel"]) < 0.85 * np.linalg.norm(free["first/kernel"])
    plain, regular = trained("plain", steps=1, learning_rate=0.1), trained("regular", steps=1, learning_rate=0.1)
    model = ImportedModel(target="nets:regular", folder=str(tmp_path)).build(tiny.manifest["features"], 5)
    [start] = [np.asarray(variable) for variable in model.weights if variable.path.endswith("out/kernel")]
    [difference] = [plain[path] - regular[path] for path in plain if path.endswith("out/kernel")]
    np.testing.assert_allclose(difference, 0.1 * 2 * 0.01 * start, atol=2e-7)


@pytest.mark.slow
def test_losses_that_a_strategy_does_not_compute_are_refused(
    tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    model = ImportedModel(target="nets:pulled", folder=str(tmp_path))
    config = PLAIN.model_copy(update={"strategy": Pipeline(devices=2, micro_batches=2)})
    with (
        ProcessLauncher(tmp_path / "logs", 2).gang("train") as gang,
        pytest.raises(Failed, match="no loss but that of the outputs"),
    ):
        limits, nothing = Limits("resources.timeout", 120), lambda *_: None
        arguments, staging = (tiny, model, config, 5), benches("pipeline").staging
        gang.call(Work(fit, arguments), staging, tmp_path / "j", limits=limits, on_report=nothing)


def test_experts_under_a_strategy_without_their_loss_are_refused_from_the_config() -> None:
    flags = [("model.experts", "4"), ("train.strategy", "{kind: pipeline}"), ("train.jit", "false")]
    with pytest.raises(Refused, match="model.balance_weight: 0.01; pipeline computes no loss but that of the outputs"):
        load(STDLIB_LM, flags)
    load(STDLIB_LM, [*flags, ("model.balance_weight", "0.0")])
