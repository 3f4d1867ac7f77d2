"""Models of the user's: any kind of Keras model, exact, its source in the digest, its errors in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.compose import load
from tasks.environment import user_code
from tasks.errors import Failed, Refused, Stopped
from tasks.evaluation.config import EvaluateConfig
from tasks.models import keras_file
from tasks.models.architectures.user_models import ImportedModel
from tasks.processes.workbench import Workbench
from tasks.runner import identities
from tasks.snapshots.config import TableSnapshot
from tasks.snapshots.transforms.function import Function
from tasks.sources.kinds.tables import PythonSource
from tasks.training.fit import fit
from tests.support.tiny import CONFIG, FILES, MODEL, stopping_after

NETS = """
import random

import numpy as np
import keras
from keras import layers, ops
from own.parts import Block

def sequential(outputs, units=8):
    return keras.Sequential([
        layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(units, "relu"), layers.Dropout(0.5),
        layers.Dense(outputs),
    ])

def functional(features, seed):
    image = keras.Input(features["image"]["shape"])
    x = layers.Flatten()(layers.Rescaling(1 / 255)(image))
    return keras.Model(image, layers.Dense(len(features["label"]["classes"]))(Block(8)(x)))

class Net(keras.Model):
    def __init__(self, units, outputs):
        super().__init__()
        self.flat, self.block, self.out = layers.Flatten(), Block(units), layers.Dense(outputs)
        self.drop = layers.Dropout(0.3)

    def call(self, image, training=False):
        x = self.flat(ops.cast(image, self.compute_dtype) / 255)
        return self.out(self.drop(self.block(x), training=training))

def subclassed(outputs):
    return Net(6, outputs)

class Noisy(layers.Layer):
    def call(self, x):
        return x + keras.random.normal(ops.shape(x), 0.0, 0.1)

def noisy(outputs):
    return keras.Sequential([layers.Flatten(), Noisy(), layers.Dense(outputs)])

class Baked(layers.Layer):
    def call(self, x):
        return x + np.random.default_rng().normal()

def baked(outputs):
    return keras.Sequential([layers.Flatten(), Baked(), layers.Dense(outputs)])

class Counting(layers.Layer):
    calls = 0

    def call(self, x):
        self.calls += 1
        return x * self.calls

def counting(outputs):
    return keras.Sequential([layers.Flatten(), Counting(), layers.Dense(outputs)])

def drawn(outputs):
    kernel = keras.initializers.Constant(np.random.default_rng().normal())
    return keras.Sequential([layers.Flatten(), layers.Dense(outputs, kernel_initializer=kernel)])

builds = 0

def beside_others(outputs):
    global builds
    builds += 1
    for _ in range(builds):
        random.random()
    return keras.Sequential([layers.Flatten(), layers.Dense(outputs)])

def softmax(outputs):
    return keras.Sequential([layers.Flatten(), layers.Dense(outputs, activation="softmax")])

def wide(outputs):
    return keras.Sequential([layers.Flatten(), layers.Dense(outputs + 3)])

def listed(outputs, sizes, **others):
    named = [layers.Dense(units, name=name) for name, units in [*sizes.items(), *others.items()]]
    return keras.Sequential([layers.Flatten(), *named, layers.Dense(outputs)])

def nothing():
    return {"a": 1}

def raises(outputs):
    return keras.Sequential([layers.Dense(outputs)])(undefined)

def several(names, bias):
    numbers = keras.Input((2,), name="numbers")
    each = [layers.Dense(1, bias_initializer=keras.initializers.Constant(value))(numbers) for value in bias]
    return keras.Model(numbers, dict(zip(names, each)) if names else each)

def cropped(outputs):
    return keras.Sequential([layers.RandomCrop(2, 2), layers.Flatten(), layers.Dense(outputs)])

def pooled(outputs):
    return keras.Sequential([layers.RandomCrop(2, 2), layers.GlobalAveragePooling2D(), layers.Dense(outputs)])

class Turned(layers.Layer):
    def __init__(self):
        super().__init__()
        self.rotation = layers.RandomRotation(0.5)

    def call(self, x):
        return self.rotation(x, training=True)

def turned(outputs):
    return keras.Sequential([Turned(), layers.Flatten(), layers.Dense(outputs)])

def stepping(outputs, method):
    return type("Stepping", (Net,), {method: lambda self, *arguments, **named: {}})(6, outputs)

def mixed(outputs):
    keras.config.set_dtype_policy("mixed_float16")
    return subclassed(outputs)

def compiled(outputs):
    model = subclassed(outputs)
    model.compile("sgd", "mse")
    return model
"""
PARTS = """
import keras

class Block(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.dense, self.norm = keras.layers.Dense(units), keras.layers.LayerNormalization()

    def call(self, x):
        return keras.ops.relu(self.norm(self.dense(x)))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    (folder / "own").mkdir()
    (folder / "own/__init__.py").touch()
    (folder / "own/nets.py").write_text(NETS)
    (folder / "own/parts.py").write_text(PARTS)
    return folder


@pytest.fixture
def net(folder: Path) -> Callable[..., ImportedModel]:
    """`net(function, **arguments)`: the section of a model."""
    return lambda function, **arguments: ImportedModel(
        target=f"own.nets:{function}", arguments=arguments, folder=str(folder)
    )


def made(bench: Workbench) -> dict[str, bytes]:
    return {name: (bench.staging.root / name).read_bytes() for name in FILES if (bench.staging.root / name).exists()}


@pytest.mark.parametrize(
    ("function", "precision"), [("sequential", "bfloat16"), ("functional", "float32"), ("subclassed", "float16")]
)
def test_a_brought_model_is_exact_and_is_loaded_without_the_users_folder(
    function: str,
    precision: str,
    net: Callable[..., ImportedModel],
    tiny: Snapshot,
    benches: Callable[[str], Workbench],
) -> None:
    """Its layers have no names and no seeds; the training of one of them is stopped."""
    whole, again = benches("whole"), benches("again")
    config = CONFIG.model_copy(update={"precision": precision})
    fit(whole, tiny, net(function), config, seed=5)
    if function == "subclassed":
        with pytest.raises(Stopped):
            fit(replace(again, stopping=stopping_after(2)), tiny, net(function), config, seed=5)
    keras.layers.Dense(3), keras.layers.Dropout(0.1)
    fit(again, tiny, net(function), config, seed=5)
    assert made(again) == made(whole)
    assert ("model.keras" in made(whole)) == (function != "subclassed"), "whose class has no get_config"

    plan = json.loads((whole.staging.root / "architecture.json").read_bytes())
    plan["model"]["folder"] = "/nowhere"
    (whole.staging.root / "architecture.json").write_text(json.dumps(plan))
    model = keras_file.load(whole.staging.root)
    outputs = model.predict(np.zeros((2, 4, 4, 1), np.uint8), verbose=0)
    assert outputs.shape == (2, 2) and outputs.dtype == np.float32
    assert sorted(path.name for path in (whole.staging.root / "code/own").iterdir()) == [
        "__init__.py",
        "nets.py",
        "parts.py",
    ]


def test_arguments_reach_the_function(net: Callable[..., ImportedModel], tiny: Snapshot) -> None:
    features = tiny.manifest["features"]
    one, other = (net("sequential", **given).build(features, 1) for given in ({}, {"units": 5}))
    assert [variable.shape for variable in other.weights][:2] == [(16, 5), (5,)] != one.weights[0].shape
    assert not np.array_equal(one.weights[0], net("sequential").build(features, 2).weights[0]), "of another seed"


def test_numbers_that_a_library_or_a_thread_draws_from_pythons_generator_change_no_weight(
    net: Callable[..., ImportedModel], tiny: Snapshot
) -> None:
    one, other, last = (net("beside_others").build(tiny.manifest["features"], seed) for seed in (1, 1, 2))
    assert np.array_equal(one.weights[0], other.weights[0]) and not np.array_equal(one.weights[0], last.weights[0])


def test_the_order_of_arguments_decides_nothing(net: Callable[..., ImportedModel], tiny: Snapshot) -> None:
    """Neither that of mappings within them: digests and the store have them sorted."""
    arguments = {"d": 4, "sizes": {"b": 2, "a": 1}, "c": 3}
    turned = {"c": 3, "sizes": {"a": 1, "b": 2}, "d": 4}
    for given in (arguments, turned):
        model = net("listed", **given).build(tiny.manifest["features"], 1)
        assert [variable.path.split("/")[-2] for variable in model.variables[:8:2]] == list("abcd")


def test_its_source_is_part_of_the_digest(
    net: Callable[..., ImportedModel], tiny: Snapshot, folder: Path, tmp_path: Path
) -> None:
    def sources(config: Any) -> Any:
        return identities.model(tiny, config, CONFIG, 5).inputs(Model)["sources"]

    before = sources(net("functional"))
    files = ["code/own/__init__.py", "code/own/nets.py", "code/own/parts.py"]
    assert [name for name, _ in before] == [*files, "package/keras", "package/numpy", "version"]
    (tmp_path / "own").mkdir()
    for name in ("__init__.py", "nets.py", "parts.py"):
        (tmp_path / "own" / name).write_text((folder / "own" / name).read_text().replace("relu(self", "tanh(self"))
    after = sources(net("functional").model_copy(update={"folder": str(tmp_path)}))
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True, True, True]
    with pytest.raises(Refused, match=r"model.target: no module absent in .*correct it, or model.folder"):
        sources(net("functional").model_copy(update={"target": "absent:make"}))


def test_the_versions_of_what_it_imports_are_part_of_the_digest(
    tiny: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what a module of its own imports, within a function; without an import of it."""
    (tmp_path / "nets.py").write_text("import os.path\nfrom helper import part\nimport absent_package\n")
    (tmp_path / "helper.py").write_text(
        "import joblib\ndef part():\n    from tinynets.deep import net\n    import scipy\n"
    )
    (tmp_path / "joblib.py").write_text("# of the user's, in place of a package of this name\n")
    found = []
    for number in ("1.0", "1.1"):
        site = tmp_path / f"site{number}"
        (site / f"tiny_nets-{number}.dist-info").mkdir(parents=True)
        (site / f"tiny_nets-{number}.dist-info/METADATA").write_text(f"Name: tiny-nets\nVersion: {number}\n")
        (site / f"tiny_nets-{number}.dist-info/top_level.txt").write_text("tinynets\n")
        (site / "tinynets.py").write_text("raise RuntimeError('imported')\n")
        monkeypatch.syspath_prepend(site)
        user_code.distributions.cache_clear()
        model = ImportedModel(target="nets:make", folder=str(tmp_path))
        found.append(identities.model(tiny, model, CONFIG, 5).inputs(Model)["sources"])
        loss = CONFIG.model_copy(update={"loss": "nets:make", "folder": str(tmp_path)})
        function = Function(function="nets:make", folder=str(tmp_path))
        doors = {
            "loss/": identities.model(tiny, MODEL, loss, 5).inputs(Model)["sources"],
            "metrics/": EvaluateConfig(own_metrics={"m": "nets:make"}, folder=str(tmp_path)).source_files(),
            "functions/": TableSnapshot(transforms={"a": function}).own_files(),
            "": PythonSource(function="nets:make", folder=str(tmp_path), columns={"a": "number"}).open().fingerprint(),
        }
        for prefix, rows in doors.items():
            assert [tuple(row) for row in rows if "package/" in row[0]] == [
                (f"{prefix}package/scipy", version("scipy")),
                (f"{prefix}package/tiny-nets", number),
            ]
    user_code.distributions.cache_clear()
    packages = [[row for row in rows if row[0].startswith("package/")] for rows in found]
    assert packages[0] == [["package/scipy", version("scipy")], ["package/tiny-nets", "1.0"]]
    assert packages[1][1] == ["package/tiny-nets", "1.1"]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            "noisy",
            "model.target: outputs of the first call differ between two runs with the same seed; .*SeedGenerator",
        ),
        ("baked", "model.target: outputs of the first call differ between two runs"),
        ("counting", "model.target: outputs of the first call differ between two runs"),
        ("drawn", "model.target: the values of sequential/dense/kernel of two builds differ"),
        ("softmax", "model.target: its last layer dense has the activation softmax; outputs are logits"),
        ("wide", r"model.target: returned a model with outputs \[None, 5\]; the task classification needs .*2 classes"),
        ("nothing", "model.target: own.nets:nothing returned a dict"),
        ("raises", "model.target: own.nets:raises own/nets.py line 84: NameError: name 'undefined' is not defined"),
        ("absent", "model.target: own.nets:absent AttributeError"),
        ("cropped", "model.target: it fails in inference: the layer random_crop crops in .* layers.CenterCrop"),
        ("turned", "model.target: outputs of two calls in inference differ; .* random layers without training=True"),
    ],
)
def test_what_cannot_be_trained_exactly_is_one_clear_error(
    function: str, says: str, net: Callable[..., ImportedModel], tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    with pytest.raises(Failed, match=says):
        fit(benches("wrong"), tiny, net(function), CONFIG, seed=5)


@pytest.mark.parametrize(
    ("function", "given", "says"),
    [
        ("stepping", {"method": "train_step"}, "has a train_step of its own; .*; leave train_step out; .*losses"),
        ("stepping", {"method": "compute_loss"}, "has a compute_loss of its own; .* add_loss"),
        ("stepping", {"method": "compute_metrics"}, "has a compute_metrics of its own; .* set evaluate.own_metrics"),
        ("mixed", {}, "policy was set to mixed_float16; .*; leave it out, and set train.precision"),
        ("compiled", {}, "a model that is compiled; train.optimizer, .* would be ignored; leave compile out"),
    ],
)
def test_what_model_fit_alone_would_use_is_refused(
    function: str, given: dict[str, str], says: str, net: Callable[..., ImportedModel], tiny: Snapshot
) -> None:
    with pytest.raises(Failed, match=f"model.target: .*{says}"):
        net(function, **given).build(tiny.manifest["features"], 1)
    assert keras.config.dtype_policy().name == "float32"


def test_a_layer_that_crops_in_training_alone_is_named(
    net: Callable[..., ImportedModel],
    tiny: Snapshot,
    benches: Callable[[str], Workbench],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the model takes images of any size, nothing fails."""
    fit(benches("pooled"), tiny, net("pooled"), CONFIG.model_copy(update={"steps": 3}), seed=5)
    assert "model.target: the layer random_crop crops in training alone: evaluations and exports read " in caplog.text


def test_outputs_of_several_targets_are_joined_in_their_order_or_by_name(net: Callable[..., ImportedModel]) -> None:
    """At inputs of 0 an output is its bias."""
    numbers = {"dtype": "float32", "shape": [2], "names": ["x", "y"]}
    features = {"numbers": numbers, "target": {"dtype": "float32", "shape": [2], "names": ["low", "high"]}}

    def brought(names: list[str], bias: list[float]) -> keras.Model:
        return net("several", names=names, bias=bias).model_copy(update={"task": "regression"}).build(features, 1)

    for names, bias in (([], [3.0, 5.0]), (["high", "low"], [5.0, 3.0])):
        model = brought(names, bias)
        assert model.output.shape == (None, 2)
        np.testing.assert_array_equal(np.asarray(model(np.zeros((1, 2), np.float32))), [[3.0, 5.0]])
    for names, bias in (([], [1.0, 2.0, 3.0]), (["high", "middle"], [1.0, 2.0])):
        with pytest.raises(Failed, match=f"returned a model with {len(bias)} outputs; .*; the targets are low, high"):
            brought(names, bias)


def test_an_unknown_argument_is_named(net: Callable[..., ImportedModel], tiny: Snapshot) -> None:
    with pytest.raises(Failed, match="TypeError: .*unexpected keyword argument 'depth'"):
        net("sequential", depth=3).build(tiny.manifest["features"], 1)


def test_it_is_found_beside_the_preset(tmp_path: Path) -> None:
    (tmp_path / "preset.yaml").write_text("{name: own, train: {steps: 3}, model: {kind: import, target: 'nets:make'}}")
    assert load(tmp_path / "preset.yaml").model.folder == str(tmp_path)  # type: ignore[union-attr]
