"""Methods of compression that train: exact, resumable, and better than what they begin with."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.distance import cosine
from scipy.special import expit, softmax
from scipy.stats import entropy

from tasks.artifacts import Model, Outcome, Snapshot
from tasks.compression import changed
from tasks.compression.config import CompressConfig
from tasks.compression.keras_layers import Frozen, factored, kernels
from tasks.compression.methods import distill, low_rank
from tasks.compression.methods.method import FineTune, Method
from tasks.compression.methods.prune import Prune
from tasks.compression.methods.qat import Qat
from tasks.compression.methods.quantise import EVERY, quantised
from tasks.compression.stored import PreparedModel
from tasks.config.compose import Config
from tasks.errors import Failed, Lost, Stopped
from tasks.exporting.export import fault_of
from tasks.exporting.formats.litert import LiteRT
from tasks.exporting.formats.saved_model import SavedModel
from tasks.exporting.fresh_process import Verified
from tasks.feed import open_snapshot
from tasks.models import keras_file
from tasks.models.architecture import stored_model
from tasks.models.architectures.convnet import Convnet1dModel, ConvnetModel, ResNetModel
from tasks.models.architectures.encoder import ViTModel
from tasks.models.architectures.mlp import DlrmModel, MlpModel
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.architectures.user_models import KerasFileModel
from tasks.models.features import input_arrays
from tasks.models.forward import predict
from tasks.models.keras_file import architecture, load
from tasks.models.prunable import Group
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.runner import identities
from tasks.training.config import TrainConfig
from tasks.training.initial import ModelInit, by_path
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import Pipeline
from tests.support.damage import without_largest_weights
from tests.support.digits import Digits
from tests.support.tiny import FILES, stopping_after
from tests.support.training import TWO, send

TRAIN = TrainConfig(steps=100, batch_size=32, learning_rate=1e-3)


def of(entry: Any) -> Method:
    [[method]] = CompressConfig.model_validate({"methods": [entry]}).chains
    return method


@dataclass
class Training:
    """A method's stages on a model, each on a workbench of its own."""

    digits: Digits
    workbench_at: Callable[[Path], Workbench]
    publish: Callable[..., Any]
    root: Path
    before: Model
    _litert_before: Path | None = field(default=None, init=False)

    def prepared(self, method: Method, name: str) -> Model:
        bench = self.workbench_at(self.root / name / "prepared")
        return self._model(bench, changed.prepare(bench, method, self.before, 0))

    def trained(
        self, method: Method, name: str, prepared: Model, train: TrainConfig = TRAIN, bench: Workbench | None = None
    ) -> Model:
        bench = bench or self.workbench_at(self.root / name / "trained")
        outcome = changed.train(bench, *self.arguments(method, name, prepared, train))
        assert outcome is not None
        return self._model(bench, outcome)

    def arguments(self, method: Method, name: str, prepared: Model, train: TrainConfig) -> tuple[Any, ...]:
        assert method.training is not None
        config = method.training.of(train).model_copy(update={"init": ModelInit(model=prepared.digest)})
        teacher = None if method.teacher_model is None else self.before
        return name, self.digits.snapshot, prepared, teacher, config, 0

    def in_processes(
        self,
        method: Method,
        name: str,
        prepared: Model,
        train: TrainConfig,
        at: Callable[[int, list[int]], None] = lambda step, processes: None,
    ) -> Path:
        """Train in compute processes, as a run does; `at` is called with each step reported, and the processes' ids."""
        bench, launcher = self.workbench_at(self.root / name / "trained"), ProcessLauncher(self.root / name / "logs", 2)
        with launcher.gang("compress", train.roles) as gang:

            def on_report(kind: str, *values: Any) -> None:
                if kind == "progress":
                    at(values[0], [process.process.begun() or 0 for process in gang.processes])  # type: ignore[attr-defined]

            gang.call(
                Work(changed.train, self.arguments(method, name, prepared, train)),
                bench.staging,
                self.root / name / "journal.jsonl",
                limits=Limits("resources.timeout", 120),
                on_report=on_report,
            )
        root: Path = bench.staging.root
        return root

    def __call__(self, entry: Any, name: str) -> Model:
        method = of(entry)
        return self.finished(method, name, self.trained(method, name, self.prepared(method, name)))

    def finished(self, method: Method, name: str, trained: Model) -> Model:
        bench = self.workbench_at(self.root / name / "finished")
        return self._model(bench, changed.finish(bench, method, trained))

    def _model(self, bench: Any, outcome: Outcome) -> Model:
        made = self.publish(Model, bench, outcome)
        return replace(made, planned={**made.manifest, **outcome.also})

    def litert(self, model: Model, folder: Path) -> Path:
        """Its LiteRT file; that of the model before is made once."""
        if model is self.before and self._litert_before is not None:
            return self._litert_before
        (folder / "saved_model").mkdir(parents=True)
        network = load(model.path)
        SavedModel.write(network, None, None, folder / "saved_model", [])
        LiteRT.write(network, None, folder / "saved_model", folder / "model.tflite", [])
        if model is self.before:
            self._litert_before = folder / "model.tflite"
        return folder / "model.tflite"

    def refuses_damage(self, model: Model, file: Path) -> bool:
        """Whether a file of a model passes the check of an export, and one without its largest weights does not."""
        features = self.digits.snapshot.manifest["features"]
        every = input_arrays(features, open_snapshot(self.digits.snapshot.path).arrays("test"))
        expected, rows, damaged = predict(load(model.path), every)[:32], every[:32], file.with_name("damaged.tflite")
        damaged.write_bytes(without_largest_weights(file.read_bytes()))
        passed = []
        for path in (file, damaged):
            found = {"max_abs_difference": float(np.abs(LiteRT(path, 1)(rows) - expected).max()), "raw_differs": []}
            tolerance = CompressConfig().max_difference * float(np.abs(expected).max())
            passed.append(fault_of(Verified(found), tolerance, "") is None)
        return passed == [True, False]

    def accuracy(self, model: Model) -> float:
        arrays = open_snapshot(self.digits.snapshot.path).arrays("test")
        rows = input_arrays(self.digits.snapshot.manifest["features"], arrays)
        return float((predict(load(model.path), rows).argmax(-1) == arrays["label"][:]).mean())


@pytest.fixture(scope="module")
def training(
    digits: Digits, workbench_at: Callable, publish: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Training:
    before = replace(digits.model, planned={"counts": {"parameters": 1, "steps": 7}, "steps": 7})
    return Training(digits, workbench_at, publish, tmp_path_factory.mktemp("trains"), before)


def at_once(training: Training, entry: Any) -> Model:
    bench = training.workbench_at(training.root / of(entry).label / "at_once")
    made: Model = training.publish(Model, bench, changed.build(bench, of(entry), training.before))
    return made


FINE_TUNE = {"steps": 100, "learning_rate": 2e-3}


def zeros_of(model: Model) -> list[int]:
    return [int((np.asarray(each) == 0).sum()) for each in kernels(load(model.path))]


@pytest.mark.slow
def test_pruning_in_a_training_loses_less_than_at_once(training: Training, tmp_path: Path) -> None:
    """By masks: the model that was trained has the zeros, before the method makes it plain again."""
    entry = {"kind": "prune", "share": 0.8}
    method = of({**entry, "fine_tune": FINE_TUNE})
    trained, plain = training.trained(method, "prune", training.prepared(method, "prune")), at_once(training, entry)
    finished = training.finished(method, "prune", trained)
    size = sum(math.prod(each.shape) for each in kernels(load(plain.path)))
    assert sum(zeros_of(trained)) == sum(zeros_of(plain)) == int(0.8 * size)
    assert zeros_of(trained) == zeros_of(finished)
    before, loses, after = (training.accuracy(model) for model in (training.before, plain, finished))
    print(before, loses, after)
    assert loses < after - 0.1 and after > before - 0.05
    assert architecture(finished.path)["model"] == architecture(training.before.path)["model"]
    assert {each.path for each in load(finished.path).variables} == {each.path for each in load(plain.path).variables}
    assert training.refuses_damage(finished, training.litert(finished, tmp_path))


@pytest.mark.parametrize("settings", [{"pattern": "2:4"}, {"share": 0.6, "scope": "layer", "ramp": 1.0}])
def test_zeros_are_where_the_settings_say(settings: dict[str, Any]) -> None:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Conv2D(8, 3, name="conv"), keras.layers.Flatten(), keras.layers.Dense(6, name="dense")]
    model = keras.Sequential([keras.Input((4, 4, 2)), *layers, keras.layers.Dense(3, name="last")], name="net")
    Prune(**settings, fine_tune=FineTune(steps=12)).attach(model)
    random = np.random.default_rng(0)
    for _ in range(12):
        for kernel in kernels(model):
            kernel.assign(np.asarray(kernel) + random.normal(0, 0.1, kernel.shape))
            if kernel.constraint is not None:
                kernel.assign(kernel.constraint(kernel))
    fours = []
    for kernel in kernels(model):
        zeros = np.asarray(kernel) == 0
        if settings.get("scope") == "layer":
            assert zeros.sum() == int(0.6 * zeros.size), kernel.path
        elif kernel.shape[-2] % 4 == 0:
            fours.append(kernel.path)
            assert (np.moveaxis(zeros, -2, -1).reshape(-1, 4).sum(axis=-1) == 2).all(), kernel.path
        else:
            assert not zeros.any()
    assert len(fours) == ("pattern" in settings), "the kernel of dense alone"


def test_the_zeros_become_more_by_a_cubic_schedule() -> None:
    """As many as 1 - (1 - t)^3 of all; a weight that is masked stays so."""
    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(10, use_bias=False, name="a")], name="net")
    Prune(share=0.8, fine_tune=FineTune(steps=20)).attach(model)
    kernel, before = model.get_layer("a").kernel, np.zeros((10, 10), bool)
    random = np.random.default_rng(0)
    for step in range(1, 21):
        kernel.assign(np.asarray(kernel) + random.normal(0, 0.1, (10, 10)))
        kernel.assign(kernel.constraint(kernel))
        masked = np.asarray(kernel) == 0
        assert masked.sum() == int(80 * (1 - (1 - min(step / 10, 1)) ** 3) + 1e-4), step
        assert masked[before].all()
        before = masked


def test_weights_after_a_training_with_rounded_ones_are_on_the_grid_of_the_file(
    training: Training, tmp_path: Path
) -> None:
    """Rounded to int4 by ai-edge-quantizer they answer the same, and those of the model before do not."""
    trained = training({"kind": "qat", "bits": 4, "fine_tune": {"steps": 30, "learning_rate": 5e-4}}, "qat4")
    features = training.digits.snapshot.manifest["features"]
    batch = input_arrays(features, open_snapshot(training.digits.snapshot.path).arrays("test"))[:200]
    differs = {}
    for name, model in (("before", training.before), ("after", trained)):
        float_file = training.litert(model, tmp_path / name)
        int4 = tmp_path / name / "int4.tflite"
        content = float_file.read_bytes()
        int4.write_bytes(quantised(content, lambda work: work.add_weight_only_config(*EVERY, num_bits=4)))
        whole, small = (LiteRT(path, 1)(batch) for path in (float_file, int4))
        differs[name] = float(np.abs(whole - small).max())
    print(differs)
    assert differs["after"] < 1e-4 < 0.1 < differs["before"]
    assert training.refuses_damage(trained, tmp_path / "after/model.tflite")
    assert training.accuracy(trained) > training.accuracy(training.before) - 0.02
    for kernel in kernels(load(trained.path)):
        channels = np.asarray(kernel).reshape(-1, kernel.shape[-1])
        assert max(np.unique(channel).size for channel in channels.T) <= 15, kernel.path


def every_layer() -> keras.Model:
    """A model with each kind of layer that is quantised, also within attention."""
    keras.utils.set_random_seed(1)
    tokens = keras.Input((16,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(64, 16, name="table")(tokens)
    x = keras.layers.MultiHeadAttention(2, 8, name="attention")(x, x)
    x = keras.layers.Conv1D(8, 3, name="conv1d")(x)
    x = keras.layers.Reshape((14, 1, 8), name="image")(x)
    x = keras.layers.DepthwiseConv2D((3, 1), name="depthwise")(x)
    x = keras.layers.Conv2D(4, 1, name="conv2d")(x)
    x = keras.layers.Dense(3, name="dense")(keras.layers.Flatten(name="flat")(x))
    return keras.Model(tokens, x, name="net")


@pytest.mark.parametrize("bits", [4, 8])
def test_every_layer_computes_with_rounded_weights_and_the_gradient_passes(tf: Any, bits: int) -> None:
    """It answers and is differentiated as a plain model with the rounded weights."""
    config, tokens = Qat(bits=bits, fine_tune=FineTune(steps=1)), np.arange(32).reshape(2, 16) % 64  # type: ignore[arg-type]
    plain, model = every_layer(), every_layer()
    unrounded = model(tokens)
    config.attach(model)
    _, weights = config.finish(PreparedModel(task="classification", model=MlpModel(), method=config), model)
    changed.with_weights(plain, weights)
    names = [each.variable.path for each in config.rounded(model)]
    assert len(names) == 9 and sum("attention" in name for name in names) == 4

    def of(network: keras.Model) -> tuple[np.ndarray, list[np.ndarray]]:
        with tf.GradientTape() as tape:
            outputs = network(tokens, training=True)
            loss = tf.reduce_sum(outputs**2)
        variables = [variable.value for variable in network.trainable_variables]
        return outputs.numpy(), [tf.convert_to_tensor(each).numpy() for each in tape.gradient(loss, variables)]

    (outputs, gradients), (expected, of_plain) = of(model), of(plain)
    assert np.abs(outputs - expected).max() < 1e-5 < np.abs(unrounded - expected).max()
    for gradient, other in zip(gradients, of_plain, strict=True):
        assert np.abs(gradient - other).max() < 1e-4


def outputs_of(training: Training, model: Model) -> np.ndarray:
    features = training.digits.snapshot.manifest["features"]
    return predict(
        load(model.path), input_arrays(features, open_snapshot(training.digits.snapshot.path).arrays("test"))
    )


def softmax_of(outputs: np.ndarray) -> np.ndarray:
    probabilities: np.ndarray = softmax(outputs, axis=-1)
    return probabilities


STUDENT = {"kind": "mlp", "units": [16, 128]}
HIDDEN = {"hidden": {"dense1": "dense"}, "hidden_weight": 20.0}


@pytest.mark.slow
def test_a_student_answers_as_its_teacher(training: Training, tmp_path: Path) -> None:
    """More than one that learns from the labels alone, and its hidden state is nearer to the teacher's."""
    entry = {"kind": "distill", "student": STUDENT, "fine_tune": {"steps": 300, "learning_rate": 5e-3}}
    images = open_snapshot(training.digits.snapshot.path).arrays("test")["image"][:]
    reference = softmax_of(outputs_of(training, training.before))
    divergence, distance = {}, {}

    def state_of(model: Model, layer: str) -> np.ndarray:
        network = load(model.path)
        state: np.ndarray = keras.Model(network.input, network.get_layer(layer).output).predict(images, verbose=0)
        return state

    settings: dict[str, dict[str, Any]] = {"taught": {}, "hidden": HIDDEN, "alone": {"weight": 1e-6}}
    for name, changed_settings in settings.items():
        student = training({**entry, **changed_settings}, name)
        assert architecture(student.path)["model"]["units"] == [16, 128]
        divergence[name] = entropy(reference, softmax_of(outputs_of(training, student)), axis=-1).mean()
        pairs = zip(state_of(training.before, "dense"), state_of(student, "dense1"), strict=True)
        distance[name] = float(np.mean([cosine(*pair) for pair in pairs]))
    print(divergence, distance)
    assert training.refuses_damage(student, training.litert(student, tmp_path))
    assert divergence["taught"] < 0.9 * divergence["alone"], "of a training of 120 steps chance decides"
    assert distance["hidden"] < 0.8 * distance["taught"]


@pytest.mark.parametrize("shape", [(5, 7), (5, 3, 7)])
def test_divergences_are_those_of_the_distributions(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    student, teacher = random.normal(0, 3, shape), random.normal(0, 3, shape)
    axes = tuple(range(1, len(shape) - 1))
    expected = 9 * entropy(softmax_of(teacher / 3), softmax_of(student / 3), axis=-1).mean(axis=axes)
    assert np.allclose(distill.softmax_divergence(student, teacher, 3.0), expected, rtol=1e-4)
    own, other = expit(student / 3), expit(teacher / 3)
    both = other * np.log(other / own) + (1 - other) * np.log((1 - other) / (1 - own))
    assert np.allclose(distill.sigmoid_divergence(student, teacher, 3.0), 9 * both.mean(axis=(*axes, -1)), rtol=1e-4)
    assert np.allclose(distill.softmax_divergence(teacher, teacher, 3.0), 0, atol=1e-5)


def test_a_teacher_answers_as_in_inference_and_is_not_trained(training: Training) -> None:
    inputs = keras.Input((4,), name="image")
    teacher = keras.Model(inputs, [keras.layers.Dropout(0.5)(keras.layers.Dense(3)(inputs))], name="teacher")
    model = keras.Model(inputs, Frozen(teacher)(inputs))
    given = np.ones((2, 4), np.float32)
    assert np.array_equal(model(given, training=True)[0], teacher(given, training=False)[0])
    assert model.trainable_variables == []
    for settings, says in (
        ({"hidden": {"dense1": "dens"}}, "hidden: dens; is no layer of the teacher; use one of"),
        ({"hidden": {"dense0": "dense"}}, r"dense0 \[None, 16\] of the student, \[None, 128\] of the teacher"),
    ):
        config = of({"kind": "distill", "student": STUDENT, "fine_tune": {"steps": 1}, **settings})
        student = MlpModel(units=(16, 128)).build(training.digits.snapshot.manifest["features"], 0)
        with pytest.raises(Failed, match=says):
            config.added_loss(student, training.before.path)  # type: ignore[arg-type]


@pytest.mark.slow
def test_factors_make_a_smaller_model_that_is_trained_again(training: Training, tmp_path: Path) -> None:
    method = of({"kind": "low_rank", "energy": 0.65, "fine_tune": {"steps": 120, "learning_rate": 2e-3}})
    prepared = training.prepared(method, "low_rank")
    made = training.finished(method, "low_rank", training.trained(method, "low_rank", prepared))
    parameters = [load(model.path).count_params() for model in (training.before, made)]
    assert parameters[1] < 0.7 * parameters[0]
    assert architecture(made.path)["model"]["task"] == architecture(prepared.path)["model"]["task"] == "classification"
    models = {"before": training.before, "made": made}
    sizes = [training.litert(model, tmp_path / name).stat().st_size for name, model in models.items()]
    assert sizes[1] < 0.75 * sizes[0]
    assert training.refuses_damage(made, tmp_path / "made/model.tflite")
    before, begun, after = (training.accuracy(model) for model in (training.before, prepared, made))
    print(parameters, sizes, before, begun, after)
    assert after > before - 0.04 and after > begun + 0.1
    plain = keras.models.load_model(made.path / "model.keras")
    images = open_snapshot(training.digits.snapshot.path).arrays("test")["image"][:10]
    assert np.allclose(plain(images), load(made.path)(images), atol=1e-5)
    again = of({"kind": "qat", "fine_tune": {"steps": 2}})
    described = again.prepare(changed.config_of(made), load(made.path))[0]  # type: ignore[arg-type]
    assert stored_model(described.model_dump(mode="json")).model.ranks == changed.config_of(made).ranks


@pytest.mark.parametrize("settings", [{"rank": 6}, {"energy": 0.9}])
def test_factors_are_the_nearest_of_their_rank(settings: dict[str, Any]) -> None:
    kernel = np.random.default_rng(0).normal(size=(20, 12)).astype(np.float32)
    config = of({"kind": "low_rank", "fine_tune": {"steps": 1}, **settings})
    first, second = low_rank.factors(kernel, config)  # type: ignore[arg-type]
    values = np.linalg.svd(kernel, compute_uv=False) ** 2
    rank = len(second)
    if "rank" in settings:
        assert rank == 6
    else:
        assert values[:rank].sum() >= 0.9 * values.sum() > values[: rank - 1].sum()
    assert np.isclose(np.square(kernel - first @ second).sum(), values[rank:].sum(), rtol=1e-4)


def test_every_layer_that_is_factored_has_the_product_as_its_kernel() -> None:
    """A dense layer, convolutions with strides, dilation and padding, and one layer that is called twice."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((12, 12, 3), name="image")
    x = keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="relu", name="strided")(inputs)
    x = keras.layers.Conv2D(16, 3, dilation_rate=2, name="dilated")(x)
    x = keras.layers.Reshape((4, 16), name="rows")(x)
    x = keras.layers.Conv1D(16, 2, padding="causal", name="causal")(x)
    twice = keras.layers.Dense(16, activation="gelu", name="twice")
    x = keras.layers.Flatten(name="flat")(twice(twice(x)))
    model = keras.Model(inputs, keras.layers.Dense(9, name="logits")(x), name="net")
    config = of({"kind": "low_rank", "rank": 3, "fine_tune": {"steps": 1}})
    described, weights = config.prepare(MlpModel(), model)  # type: ignore[arg-type]
    assert set(described.ranks) == {"strided", "dilated", "causal", "twice", "logits"}
    made = changed.with_weights(factored(model, described.ranks), weights)
    for name in described.ranks:
        first, second = (np.asarray(made.get_layer(each).kernel) for each in (f"{name}_factor", name))
        kernel = model.get_layer(name).kernel
        kernel.assign(np.tensordot(first, second.reshape(second.shape[-2:]), 1).reshape(kernel.shape))
    images = np.random.default_rng(0).normal(size=(2, 12, 12, 3)).astype(np.float32)
    assert np.allclose(made(images), model(images), atol=1e-4)
    with pytest.raises(Failed, match="rank 1; no dense or convolutional layer of the model becomes smaller"):
        config.model_copy(update={"rank": 1}).prepare(MlpModel(), made)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="low_rank, rank 99; no dense or convolutional layer of the model becomes smaller"):
        config.model_copy(update={"rank": 99}).prepare(MlpModel(), model)  # type: ignore[arg-type]


def test_fewer_units_are_a_smaller_model_of_the_same_kind(training: Training, tmp_path: Path) -> None:
    method = of({"kind": "prune_structured", "share": 0.5, "fine_tune": {"steps": 100, "learning_rate": 2e-3}})
    prepared = training.prepared(method, "structured")
    made = training.finished(method, "structured", training.trained(method, "structured", prepared))
    config = ConvnetModel(filters=(16, 32), dense=64, dropout=0.0)
    assert changed.config_of(made) == config
    models = {"before": training.before, "structured": made}
    sizes = [training.litert(model, tmp_path / name).stat().st_size for name, model in models.items()]
    assert sizes[1] < 0.35 * sizes[0]
    assert training.refuses_damage(made, tmp_path / "structured/model.tflite")
    before, begun, after = (training.accuracy(model) for model in (training.before, prepared, made))
    print(sizes, before, begun, after)
    assert after > before - 0.04 and after > begun + 0.05


IMAGE = {"image": {"shape": [8, 8, 1], "dtype": "uint8"}}
TOKENS = {"tokens": {"shape": [16], "dtype": "int32", "vocabulary": 32, "bos": 31}}
GROUPED = TransformerModel(width=8, layers=2, heads=8, head_dim=6, kv_heads=4, hidden=10)
WITHOUT: dict[str, tuple[Any, dict[str, Any]]] = {
    "mlp": (MlpModel(units=(12, 8)), {"image": {"shape": [4, 4, 1], "dtype": "uint8"}}),
    "convnet": (ConvnetModel(filters=(6, 4), dense=8), IMAGE),
    "convnet1d": (Convnet1dModel(filters=(6, 4), dense=8), {"sound": {"shape": [32, 3], "dtype": "float32"}}),
    "vit": (ViTModel(width=8, layers=2, heads=2, hidden=10), IMAGE),
    "transformer": (TransformerModel(width=8, layers=2, heads=2, hidden=10), TOKENS),
    "grouped": (GROUPED, TOKENS),
    "experts": (GROUPED.model_copy(update={"experts": 3}), TOKENS),
    "resnet": (ResNetModel(blocks=(1, 2), filters=8, groups=4), IMAGE),
    "narrow": (ResNetModel(blocks=(1, 1), filters=8, groups=2, inner_groups=6), IMAGE),
}
LABEL = {"label": {"shape": [], "dtype": "int64", "classes": ["a", "b", "c"]}}


def with_random_weights(config: Any, features: dict[str, Any]) -> keras.Model:
    model = config.build(features, 0)
    random = np.random.default_rng(0)
    for variable in model.variables:
        if "seed_generator" not in variable.path:
            variable.assign(random.normal(0, 0.3, variable.shape))
    return model


def batch_for(model: keras.Model) -> np.ndarray:
    [given] = model.inputs
    sizes = (size or 16 for size in given.shape[1:])
    most = 31 if given.name == "tokens" else 255
    batch: np.ndarray = np.random.default_rng(1).integers(0, most, (32, *sizes)).astype(given.dtype)
    return batch


@pytest.mark.parametrize("name", WITHOUT)
def test_units_that_are_not_read_are_left_out_and_no_output_changes(name: str) -> None:
    """Half of the units of each layer write and read nothing: the model without them is the same function."""
    config, features = WITHOUT[name]
    features = features | ({} if "tokens" in features else LABEL)
    model = with_random_weights(config, features)
    weights, random = by_path(model), np.random.default_rng(2)
    groups = config.prunable().groups
    for group in groups:
        silence(group, weights, random.permutation(group.count)[: group.count // 2])
    changed.with_weights(model, weights)
    method = of({"kind": "prune_structured", "fine_tune": {"steps": 1}})
    smaller, kept = method.prepare(config, model)  # type: ignore[arg-type]
    counts = [group.count for group in smaller.prunable().groups]
    assert counts == [group.count - group.count // 2 for group in groups]
    made = changed.with_weights(smaller.build(features, 1), kept)
    assert made.count_params() < model.count_params()
    again = of({"kind": "prune_structured", "norm": "l2", "fine_tune": {"steps": 1}})
    assert again.prepare(config, model)[0] == smaller  # type: ignore[arg-type]
    expected = np.asarray(model(batch_for(model)))
    largest = np.abs(expected).max()
    assert np.ptp(expected, axis=0).max() > 0.03 * largest, "the units that are left matter"
    assert np.allclose(made(batch_for(model)), expected, atol=1e-3 * largest)


def silence(group: Group, weights: dict[str, np.ndarray], which: np.ndarray) -> None:
    """Set to 0 what some units write: in a head the weights that read them alone, as its softmax is of no weights."""
    if group.part == "units" and group.between is None:
        for start in range(0, weights[f"{group.layer}/kernel"].shape[-1], group.count):
            weights[f"{group.layer}/kernel"][..., start + which] = 0
            if (bias := f"{group.layer}/bias") in weights:
                weights[bias][start + which] = 0
        return
    for unit in which:
        weights[f"{group.reader}/kernel"][..., unit * group.rows : (unit + 1) * group.rows, :] = 0


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_heads_that_are_left_out_are_those_of_the_smallest_output_projection() -> None:
    """With the queries that share its keys and values; the model answers as before with the head's outputs at 0, in
    generation with a cache as well."""
    model = with_random_weights(GROUPED, TOKENS)
    weights = by_path(model)
    for block, group in ((0, 2), (1, 0)):
        weights[f"block{block}_attention_out/kernel"][group * 12 : (group + 1) * 12] *= 0.1
    changed.with_weights(model, weights)
    method = of({"kind": "prune_structured", "share": 0, "heads": 0.25, "fine_tune": {"steps": 1}})
    smaller, kept = method.prepare(GROUPED, model)  # type: ignore[arg-type]
    assert smaller == GROUPED.model_copy(update={"heads": 6, "kv_heads": 3})
    made = changed.with_weights(smaller.build(TOKENS, 1), kept)
    of_heads = [name for name in weights if "attention_qkv" in name or "attention_out" in name]
    before, after = (sum(each[name].size for name in of_heads) for each in (weights, kept))
    assert after == 0.75 * before and model.count_params() - made.count_params() == before - after
    for block, group in ((0, 2), (1, 0)):
        weights[f"block{block}_attention_out/kernel"][group * 12 : (group + 1) * 12] = 0
    changed.with_weights(model, weights)
    tokens = batch_for(model)[:2]
    assert np.allclose(made(tokens), model(tokens), atol=1e-4)
    prefill, decode = smaller.functions(TOKENS, made)
    cache = prefill.call({"tokens": tokens})
    logits = cache.pop("logits")
    assert np.allclose(logits, model(tokens), atol=1e-4) and cache["keys"].shape == (2, 2, 3, 16, 6)
    position = np.full(2, 15, np.int32)
    one = decode.call({"tokens": tokens[:, 15:], "position": position, **cache})["logits"]
    assert np.allclose(one[:, 0], logits[:, 15], atol=1e-4)


@pytest.mark.slow
def test_a_model_with_fewer_heads_is_exported_and_loaded_by_keras_alone(training: Training, tmp_path: Path) -> None:
    features = training.digits.snapshot.manifest["features"]
    config = ViTModel(width=64, layers=1, heads=4, hidden=32, patch=4)
    bench = training.workbench_at(tmp_path / "model")
    network = with_random_weights(config, features)
    saved = keras_file.save(network, bench.staging, config, features, 0)
    own = replace(training, root=tmp_path, before=training.publish(Model, bench, Outcome(counts={}, also=saved)))
    own.before = replace(own.before, planned={**own.before.manifest, "counts": {"steps": 1}, "steps": 1})
    made = own({"kind": "prune_structured", "share": 0.0, "heads": 0.5, "fine_tune": {"steps": 4}}, "heads")
    assert changed.config_of(made) == config.model_copy(update={"heads": 2, "head_dim": 16})
    images = open_snapshot(own.digits.snapshot.path).arrays("test")["image"][:4]
    expected = np.asarray(load(made.path)(images))
    assert np.allclose(keras.models.load_model(made.path / "model.keras")(images), expected, atol=1e-5)
    file = own.litert(made, tmp_path / "made")
    assert np.allclose(LiteRT(file, 1)({"image": images}), expected, atol=1e-3)
    assert file.stat().st_size < 0.85 * own.litert(own.before, tmp_path / "before").stat().st_size


def test_what_has_no_such_units_is_refused(training: Training) -> None:
    network = load(training.before.path)
    known = "convnet, mlp, encoder, transformer, resnet, vit, convnet1d"
    cases = (
        (DlrmModel(), {}, f"kind dlrm, layer block0_conv0; what else reads its units is known only in {known}"),
        (ConvnetModel(), {"heads": 0.5}, "heads 0.5 of a model of kind convnet; it has no attention heads"),
        (ConvnetModel(), {"share": 0.001}, r"prune_structured_0 of 32, 64, 128 units of a layer; leaves none out"),
        (ResNetModel(groups=1), {}, "prune_structured_50 of 1 units of a layer; leaves none out"),
    )
    for config, settings, says in cases:
        method = of({"kind": "prune_structured", **settings, "fine_tune": {"steps": 1}})
        with pytest.raises(Failed, match=says):
            method.prepare(config, network)  # type: ignore[arg-type]


def test_a_model_of_a_file_is_trained_from_the_copy_of_it(
    training: Training, workbench_at: Callable, publish: Callable, tmp_path: Path
) -> None:
    """Of Keras, with attention in it; no path of this machine is in the artifacts, so that their bytes are the same."""
    features = training.digits.snapshot.manifest["features"]
    inputs = keras.Input((8, 8, 1), dtype="uint8", name="image")
    x = keras.layers.Reshape((8, 8), name="rows")(keras.layers.Rescaling(1 / 255, name="scaled")(inputs))
    x = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    x = keras.layers.Dense(10, name="out")(keras.layers.Flatten(name="flat")(x))
    keras.Model(inputs, x, name="own").save(tmp_path / "own.keras")
    config = KerasFileModel(path=str(tmp_path / "own.keras"))
    bench = workbench_at(tmp_path / "model")
    saved = keras_file.save(config.build(features, 0), bench.staging, config, features, 0)  # type: ignore[arg-type]
    own = replace(training, root=tmp_path, before=publish(Model, bench, Outcome(counts={"steps": 1}, also=saved)))
    own.before = replace(own.before, planned={**own.before.manifest, "steps": 1})
    (tmp_path / "own.keras").unlink()
    images = open_snapshot(own.digits.snapshot.path).arrays("test")["image"][:10]
    method = of(ONES[3])
    prepared = own.prepared(method, method.label)
    made = own.finished(method, method.label, own.trained(method, method.label, prepared))
    plain = keras.models.load_model(made.path / "model.keras")
    assert np.allclose(plain(images), load(made.path)(images), atol=1e-5)
    for model in (prepared, made, own.prepared(of(ONES[1]), "rounded")):
        assert str(tmp_path) not in (model.path / "architecture.json").read_text()
        assert (model.path / "code/config.json").is_file()


def test_the_teacher_is_a_parent_and_a_registered_one_is_a_model_of_the_store() -> None:
    model, teacher, snapshot = (
        Model("m", Path(), "model"),
        Model("t", Path(), "model"),
        Snapshot("s", Path(), "snapshot"),
    )
    taught = [identities.retrained(model, snapshot, TRAIN, 0, each).inputs(Model) for each in (teacher, model)]
    assert [each["parents"]["teacher"] for each in taught] == ["t", "m"]
    student = {"kind": "distill", "student": STUDENT, "fine_tune": {"steps": 9}}
    config = CompressConfig.model_validate(
        {"methods": ["float16", [{**student, "teacher": "big@champion"}, "float16"]]}
    )
    pinned = config.taught_by({"big@champion": "0123"}.__getitem__)
    assert [method.teacher_model for chain in pinned.chains for method in chain] == [None, "0123", None]
    assert [chain.name for chain in pinned.chains] == [chain.name for chain in config.chains]
    plain = CompressConfig.model_validate({"methods": [{**student, "teacher": "0123"}, "float16"]})
    assert plain.taught_by(lambda reference: reference) is plain


ONES: list[dict[str, Any]] = [
    {"kind": "prune", "share": 0.5, "fine_tune": {"steps": 12}},
    {"kind": "qat", "fine_tune": {"steps": 12}},
    {"kind": "distill", "student": STUDENT, "fine_tune": {"steps": 12}},
    {"kind": "low_rank", "rank": 4, "fine_tune": {"steps": 12}},
    {"kind": "prune_structured", "fine_tune": {"steps": 12}},
]


FAST = ("prune",)
STOPPED = [pytest.param(each, marks=[] if each["kind"] in FAST else pytest.mark.slow, id=each["kind"]) for each in ONES]


@pytest.mark.parametrize("entry", STOPPED)
def test_a_training_that_was_stopped_goes_on_exactly(training: Training, entry: dict[str, Any]) -> None:
    method, name = of(entry), f"{entry['kind']}_stopped"
    prepared, whole = training.prepared(method, name), f"{name}_whole"
    bench = training.workbench_at(training.root / name)
    train = TRAIN.model_copy(update={"log_every": 2, "checkpoint": CheckpointConfig(every=4)})
    training.trained(method, whole, prepared, train)
    with pytest.raises(Stopped):
        training.trained(method, name, prepared, train, replace(bench, stopping=stopping_after(3)))
    assert bench.staging.pieces("checkpoints/")
    training.trained(method, name, prepared, train, bench)
    unbroken = training.root / whole / "trained"
    for file in FILES:
        assert (bench.staging.root / file).read_bytes() == (unbroken / file).read_bytes(), file


@pytest.mark.slow
def test_a_training_that_was_killed_goes_on_exactly_and_several_processes_equal_one(training: Training) -> None:
    method, train = of(ONES[0]), TRAIN.model_copy(update={"log_every": 2, "checkpoint": CheckpointConfig(every=4)})
    prepared = training.prepared(method, "killed")
    unbroken = training.in_processes(method, "unbroken", prepared, train)
    with pytest.raises(Lost):
        training.in_processes(method, "killed", prepared, train, send(signal.SIGKILL, 0, 6))
    killed = training.in_processes(method, "killed", prepared, train)
    for file in FILES:
        assert (killed / file).read_bytes() == (unbroken / file).read_bytes(), file
    for name, strategy in {"two": TWO, "stages": Pipeline(micro_batches=2, workers=2)}.items():
        several = training.in_processes(method, name, prepared, train.model_copy(update={"strategy": strategy}))
        for one, other in zip(load(unbroken).variables, load(several).variables, strict=True):
            assert np.abs(np.asarray(one) - np.asarray(other)).max() < 1e-3, one.path


def test_a_training_has_the_settings_of_the_section_but_its_own() -> None:
    section = {
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 0.5,
        "schedule": {"kind": "cosine", "warmup": 2},
        "freeze": ["dense"],
        "ema": 0.9,
        "select": "best",
        "early_stopping": {},
    }
    config = FineTune(steps=7).of(TrainConfig.model_validate(section))
    assert config == TrainConfig(steps=7, batch_size=16, learning_rate=0.5, ema=0.9)
    assert FineTune(steps=7, learning_rate=0.1).of(config).learning_rate == 0.1


REFUSED = [
    ("qat", {}, r"methods \(qat\) is a name alone, and needs fine_tune; write {kind: qat, fine_tune: ...}"),
    ({**ONES[4], "share": 0}, {}, "share .* leaves nothing out; raise it, or set heads"),
    ({**ONES[3], "energy": 0.5}, {}, "needs exactly one of rank and energy"),
    ({"kind": "prune", "ramp": 0.2}, {}, "share of the steps of a fine_tune that is not there; leave it out"),
    (
        ONES[0],
        {"strategy": {"kind": "parameter_server"}},
        r"compress.methods \(prune\) trains a whole model in each process",
    ),
    (ONES[2], {"strategy": {"kind": "pipeline"}}, r"\(distill\) has a loss besides .* which pipeline does not compute"),
    (ONES[2], {"remat": True}, r"\(distill\) has a loss besides .* which train.remat does not compute"),
    ({**ONES[2], "hidden_weight": 2.0}, {}, "factor of layers that are not named"),
    ({**ONES[2], "student": {**STUDENT, "task": "regression"}}, {}, "no logits of probabilities"),
    ({**ONES[2], "student": {**STUDENT, "task": "multilabel"}}, {}, "the student of distill has another task"),
    ({**ONES[2], "student": {"kind": "encoder"}}, {}, "compress.methods.kind .* reads snapshots of kind table"),
]


@pytest.mark.parametrize(("entry", "train", "says"), REFUSED)
def test_what_cannot_be_trained_is_refused(entry: Any, train: dict[str, Any], says: str) -> None:
    values = {"name": "a", "train": {"steps": 9, **train}, "compress": {"methods": [entry]}}
    with pytest.raises(ValidationError, match=says):
        Config.model_validate(values)
