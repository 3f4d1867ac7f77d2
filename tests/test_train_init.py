"""Starting from a trained model: its weights by path, frozen layers, low-rank adaptation, each exact after a stop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tasks.artifacts import Model, Snapshot
from tasks.config.base import Conflict, identity
from tasks.errors import Failed, Refused, Stopped
from tasks.feed import open_snapshot
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.models import keras_file
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.runner import identities
from tasks.training import initial, starting
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow import weights as adapting
from tasks.training.fit import fit, make_engine
from tasks.training.group import Cluster
from tasks.training.initial import FileInit, KerasHubInit, ModelInit
from tasks.training.loop import make_plan
from tasks.training.optimizers import Sgd
from tasks.training.sections import Lora
from tasks.training.strategies import Mirrored, Pipeline
from tests.support.tiny import CONFIG, MODEL, STEPS, files, stopping_after
from tests.support.training import raise_conflict

LORA = Lora(rank=2, alpha=4, targets=("dense*",), also=("logits",))


@pytest.fixture(scope="module")
def snapshot(tiny: Snapshot) -> SnapshotReader:
    return open_snapshot(tiny.path)


@pytest.fixture(scope="module")
def trained(
    tiny: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> Model:
    bench = workbench_at(tmp_path_factory.mktemp("base") / "model")
    made: Model = publish(Model, bench, fit(bench, tiny, MODEL, CONFIG, seed=3))
    return made


def by_path(folder: Path) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable) for variable in keras_file.load(folder).weights}


def started(config: Any, snapshot: SnapshotReader, start: Model | None = None, model: MlpModel = MODEL) -> Arrays:
    """The initial weights by path, as an engine has them."""
    weights = starting.initial_weights(config, start, model, snapshot.features, 5)
    engine = make_engine(CONFIG, model, snapshot, make_plan(CONFIG, 10, (7,)), 5, Cluster())
    engine.begin_with(weights)
    paths = [variable.path for variable in model.build(snapshot.features, 5).variables]
    got = engine.weights()
    engine.close()
    return {path: got[f"model/{number:05d}"] for number, path in enumerate(paths) if "seed" not in path}


def test_a_training_begins_with_the_weights_of_a_model_or_a_file(trained: Model, snapshot: SnapshotReader) -> None:
    expected = by_path(trained.path)
    for config in (
        ModelInit(model="0" * 64),
        FileInit(path=str(trained.path / "model.keras")),
        FileInit(path=str(trained.path / "model.weights.h5")),
    ):
        got = started(config, snapshot, trained)
        assert got.keys() == expected.keys()
        assert all(np.array_equal(got[path], expected[path]) for path in expected), config


def test_new_layers_begin_anew_and_paths_are_renamed(trained: Model, snapshot: SnapshotReader) -> None:
    expected = by_path(trained.path)
    path = str(trained.path / "model.keras")
    got = started(FileInit(path=path, new=("logits",)), snapshot)
    assert np.array_equal(got["dense0/kernel"], expected["dense0/kernel"])
    assert not np.array_equal(got["logits/kernel"], expected["logits/kernel"])
    swapped = {"dense1/bias": "dense0/bias"}
    assert np.array_equal(
        started(FileInit(path=path, rename=swapped), snapshot)["dense1/bias"], expected["dense0/bias"]
    )


def test_the_longest_beginning_of_a_path_is_renamed_in_any_order() -> None:
    shapes = {"a/kernel": (1,), "a/b/kernel": (1,), "c/kernel": (1,)}
    known = {path: np.array([number]) for number, path in enumerate(("x/kernel", "y/kernel", "c/kernel"))}
    rename = {"a/": "x/", "a/b/": "y/"}
    for order in (rename, dict(reversed(rename.items()))):
        got = starting.match(shapes, known, FileInit(path="a.keras", rename=order))
        assert {path: int(values[0]) for path, values in got.items()} == {"a/kernel": 0, "a/b/kernel": 1, "c/kernel": 2}
    with pytest.raises(Failed, match="train.init.rename: encodr/; begins no path of the model; use one of a/kernel"):
        starting.match(shapes, known, FileInit(path="a.keras", rename={"encodr/": "x/"}))


def test_each_variable_may_be_named_as_new_or_renamed_whichever_place_it_has() -> None:
    shapes = {f"{layer}/kernel": (1,) for layer in "abc"}
    known = {f"{layer}/kernel": np.array([number]) for number, layer in enumerate("xyz")}
    for layer in "abc":
        new = tuple(other for other in "abc" if other != layer)
        config = FileInit(path="a.keras", new=new, rename={f"{layer}/": "z/"})
        assert {path: int(values[0]) for path, values in starting.match(shapes, known, config).items()} == {
            f"{layer}/kernel": 2
        }


def test_each_pattern_of_an_adaptation_chooses_layers_and_all_others_are_frozen() -> None:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, name="one")(inputs)
    hidden = keras.layers.Dense(4, name="two")(keras.layers.Dense(4, name="both")(hidden))
    hidden = keras.layers.LayerNormalization(name="norm")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(2, name="out")(hidden))
    config = Lora(rank=2, targets=("one", "two", "both"), also=("norm", "both"))
    added = adapting.add_matrices(model, config, seed=1)
    assert len(added) == 2, "what is trained whole has no matrices"
    assert sorted(variable.path for variable in model.trainable_variables) == [
        *(f"both/{name}" for name in ("bias", "kernel")),
        *(f"norm/{name}" for name in ("beta", "gamma")),
        *(f"one/lora_kernel_{name}" for name in "ab"),
        *(f"two/lora_kernel_{name}" for name in "ab"),
    ]


def test_what_does_not_match_is_named(trained: Model, snapshot: SnapshotReader, tmp_path: Path) -> None:
    path = str(trained.path / "model.keras")
    wider = MlpModel(units=(8, 9))
    says = r"no weights for dense1/kernel \(\[8, 8\], not \[8, 9\]\), .*name its layer in train.init.new, or map"
    with pytest.raises(Failed, match=says):
        started(FileInit(path=path), snapshot, model=wider)
    started(FileInit(path=path, new=("dense1", "logits")), snapshot, model=wider)
    with pytest.raises(Failed, match="train.init.new: loggits; names no layer of the model"):
        started(FileInit(path=path, new=("loggits",)), snapshot)
    damaged = tmp_path / "damaged.keras"
    damaged.write_bytes((trained.path / "model.keras").read_bytes()[:1000])
    with pytest.raises(Failed, match="train.init.path: .*damaged.keras: .*; is a file that Keras 3 saved"):
        started(FileInit(path=str(damaged)), snapshot)
    with pytest.raises(Conflict, match="a file of weights has no layer names"):
        raise_conflict(lambda: FileInit(path="a.weights.h5", new=("logits",)))
    with pytest.raises(Refused, match="train.init.path: nowhere.keras; no such file or folder"):
        starting.check_init(FileInit(path="nowhere.keras"))
    with pytest.raises(Refused, match="nothing is downloaded unasked"):
        starting.check_init(KerasHubInit(preset="bert_tiny_en_uncased"))
    with pytest.raises(Refused, match="train.init.preset: ./bert; no such file or folder"):
        starting.check_init(KerasHubInit(preset="./bert"))
    for downloaded in ("bert_tiny_en_uncased", "hf://google-bert/bert-base-uncased"):
        starting.check_init(KerasHubInit(preset=downloaded, download=True))
    with pytest.raises(Conflict, match=r"download \(True\) is ignored: ./bert is a folder"):
        raise_conflict(lambda: KerasHubInit(preset="./bert", download=True))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (
            MlpModel(units=(8, 9)),
            r"layers/dense_1 is dense1 \[8, 8\], \[8\]; this model has dense1 \[8, 9\], \[9\] there",
        ),
        (MlpModel(units=(8, 8, 8)), "layers/dense_2 is logits .*; this model has dense2 "),
        (MlpModel(units=(8,)), "layers/dense_1 is dense1 .*; this model has logits "),
    ],
    ids=("another shape", "a further layer", "a layer less"),
)
def test_weights_of_another_model_are_refused_and_not_taken_by_their_place(
    trained: Model, snapshot: SnapshotReader, model: MlpModel, says: str
) -> None:
    with pytest.raises(Failed, match=f"train.init.path: model.weights.h5: {says}"):
        started(FileInit(path=str(trained.path / "model.weights.h5")), snapshot, model=model)


def test_weights_of_layers_with_other_names_are_refused(tmp_path: Path) -> None:
    """Keras takes them: the places and shapes are the same."""
    from tasks.models.keras_archive import refuse_other_weights

    def made(*names: str | None) -> keras.Model:
        return keras.Sequential([keras.Input((3,)), *(keras.layers.Dense(3, name=name) for name in names)])

    path = tmp_path / "saved.weights.h5"
    made("first", "last").save_weights(path)
    refuse_other_weights(made("first", "last"), path, "train.init.path")
    with pytest.raises(Failed, match=r"layers/dense is first \[3, 3\], \[3\]; this model has last"):
        refuse_other_weights(made("last", "first"), path, "train.init.path")
    made(None, None).save_weights(path)
    refuse_other_weights(made(None, None), path, "train.init.path")  # Keras has counted on


BERT = """
import keras
import keras_hub
from keras import layers, ops

class Encoder(layers.Layer):
    def build(self, shape):
        self.bert = keras_hub.models.BertBackbone(20, 1, 2, 8, 16, max_sequence_length=16)

    def call(self, tokens):
        inputs = {"token_ids": tokens, "padding_mask": ops.ones_like(tokens), "segment_ids": ops.zeros_like(tokens)}
        return self.bert(inputs)["pooled_output"]

def make(outputs):
    image = keras.Input((4, 4, 1), dtype="uint8", name="image")
    tokens = ops.cast(layers.Reshape((16,))(image), "int32") % 20
    return keras.Model(image, layers.Dense(outputs, name="logits")(Encoder(name="encoder")(tokens)))
"""


def test_a_training_begins_with_a_backbone_of_keras_hub(
    snapshot: SnapshotReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras_hub

    bert = keras_hub.models.BertBackbone(20, 1, 2, 8, 16, max_sequence_length=16)
    bert.save_to_preset(str(tmp_path / "bert"))
    (tmp_path / "nets.py").write_text(BERT)
    model = ImportedModel(target="nets:make", folder=str(tmp_path))
    config = KerasHubInit(preset=str(tmp_path / "bert"), rename={"encoder/": ""}, new=("logits",))
    starting.check_init(config)
    assert "init/bert/model.weights.h5" in dict(starting.init_files(config))
    assert identity(config) == identity(KerasHubInit(preset="/elsewhere", rename={"encoder/": ""}, new=("logits",)))
    monkeypatch.chdir(tmp_path)
    assert starting.init_files(KerasHubInit(preset="bert", download=True)) == [], "a name, whatever folders there are"
    with pytest.raises(Refused, match="train.init.preset: bert; .* as in ./folder, or set train.init.download to true"):
        starting.check_init(KerasHubInit(preset="bert"))
    weights = starting.initial_weights(config, None, model, snapshot.features, 5)
    paths = [variable.path for variable in model.build(snapshot.features, 5).variables]
    got = {path: weights[f"model/{number:05d}"] for number, path in enumerate(paths)}
    expected = initial.by_path(bert)
    assert len(expected) > 20 and {f"encoder/{path}" for path in expected} <= got.keys()
    assert all(np.array_equal(got[f"encoder/{path}"], values) for path, values in expected.items())

    (tmp_path / "empty").mkdir()
    with pytest.raises(
        Failed, match="train.init.preset: .*/empty: .*; its weights are read by Keras; use one that fits"
    ):
        starting.initial_weights(KerasHubInit(preset=str(tmp_path / "empty")), None, model, snapshot.features, 5)
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(Failed, match="train.init.kind: keras_hub; needs the package keras-hub; install the extra hub"):
        config.weights(bert, None)


def test_a_function_in_a_keras_file_is_not_run(snapshot: SnapshotReader, tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x)])
    model.save(tmp_path / "hostile.keras")
    with pytest.raises(Failed, match="train.init.path: .*ambda"):
        started(FileInit(path=str(tmp_path / "hostile.keras")), snapshot)


def test_the_weights_that_it_begins_with_are_part_of_the_digest(trained: Model, tiny: Snapshot) -> None:
    def inputs(init: Any, start: Model | None = None) -> Any:
        config = CONFIG.model_copy(update={"init": init})
        return identities.model(tiny, MODEL, config, 5, None, start).inputs(Model)

    at = FileInit(path=str(trained.path / "model.keras"))
    assert inputs(at)["sources"] and inputs(None)["sources"] == []
    assert inputs(at) != inputs(FileInit(path=str(trained.path / "model.weights.h5"), new=()))
    assert inputs(ModelInit(model="00"), trained)["parents"]["init"] == trained.digest


def test_a_whole_training_from_a_model_goes_on_from_its_weights(
    trained: Model, tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    """With a rate near 0 the model stays what it began with."""
    options = {"init": ModelInit(model="0" * 64), "learning_rate": 1e-12, "optimizer": Sgd()}
    bench = benches("still")
    fit(bench, tiny, MODEL, CONFIG.model_copy(update=options), seed=5, start=trained)
    expected, got = by_path(trained.path), by_path(bench.staging.root)
    assert all(np.allclose(got[path], expected[path], atol=1e-9) for path in expected)


def test_frozen_layers_stay(trained: Model, tiny: Snapshot, benches: Callable[[str], Workbench]) -> None:
    options = {"init": ModelInit(model="0" * 64), "freeze": ("dense*",)}
    bench = benches("frozen")
    fit(bench, tiny, MODEL, CONFIG.model_copy(update=options), seed=5, start=trained)
    before, after = by_path(trained.path), by_path(bench.staging.root)
    assert {path for path in before if not np.array_equal(before[path], after[path])} == {
        "logits/bias",
        "logits/kernel",
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"freeze": ("dens_*",)}, r"train.freeze: dens_\*; names no layer with weights of the model; use names of"),
        ({"freeze": ("*",)}, "train.freeze: .*nothing is left to train"),
        ({"lora": Lora(targets=("image*",))}, "train.lora.targets: .*names no Dense, EinsumDense or Embedding layer"),
        ({"lora": Lora(also=("head",))}, "train.lora.also: head; names no layer"),
    ],
)
def test_a_pattern_that_names_nothing_is_refused(options: dict[str, Any], says: str, snapshot: SnapshotReader) -> None:
    with pytest.raises(Failed, match=says):
        config = CONFIG.model_copy(update=options)
        make_engine(config, MODEL, snapshot, make_plan(config, 10, (7,)), 5, Cluster())


def test_low_rank_matrices_are_merged_into_a_model_without_further_layers(
    trained: Model, tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    options = {"init": ModelInit(model="0" * 64), "lora": LORA}
    bench = benches("adapted")
    fit(bench, tiny, MODEL, CONFIG.model_copy(update=options), seed=5, start=trained)
    before, after = by_path(trained.path), by_path(bench.staging.root)
    assert before.keys() == after.keys()
    for path in ("dense0/kernel", "dense1/kernel"):
        changes = np.linalg.svd(after[path] - before[path], compute_uv=False)
        assert changes[1] > 1e-6 > changes[2] / changes[0], "of rank 2"
    assert np.array_equal(before["dense0/bias"], after["dense0/bias"]), "frozen"
    assert not np.array_equal(before["logits/bias"], after["logits/bias"]), "of train.lora.also"


READS = """
import keras
from keras import layers, ops

def make(outputs):
    image = keras.Input((4, 4, 1), dtype="uint8", name="image")
    words = layers.Embedding(256, 6, name="words")(layers.Reshape((16,))(image))
    heads = layers.EinsumDense("abc,cde->abde", (16, 3, 4), bias_axes="de", name="heads")(words)
    return keras.Model(image, layers.Dense(outputs, name="logits")(layers.Flatten()(heads)))
"""


@pytest.mark.parametrize("target", ["words", "heads"])
def test_an_embedding_and_a_dense_layer_of_more_axes_are_adapted(
    target: str, snapshot: SnapshotReader, tmp_path: Path
) -> None:
    (tmp_path / "reads.py").write_text(READS)
    model = ImportedModel(target="reads:make", folder=str(tmp_path))
    config = CONFIG.model_copy(update={"lora": Lora(rank=2, alpha=4, targets=(target,))})
    engine: Any = make_engine(config, model, snapshot, make_plan(config, 10, (7,)), 5, Cluster())
    images = snapshot.reader("validation", 5, order="stored")[0]["image"]
    start, began = by_name(engine), np.asarray(engine.model(images))
    engine.seek(0)
    engine.step(make_plan(config, 10, ()).rates(0, STEPS))
    frozen, ended, made = by_name(engine), np.asarray(engine.model(images)), engine.weights()
    paths = {name: path for name, path in engine.paths.items() if "seed" not in path}
    engine.close()
    assert all(np.array_equal(start[path], frozen[path]) for path in paths.values()), "the base stays"
    assert np.abs(ended - began).max() > 1e-3, "and the outputs move"
    plain = model.build(snapshot.features, 5)
    for variable, name in zip(plain.variables, sorted(made), strict=True):
        variable.assign(made[name])
    assert np.abs(np.asarray(plain(images)) - ended).max() < 1e-5, "as those of the merged model"
    changed = {path for name, path in paths.items() if not np.array_equal(made[name], start[path])}
    assert changed == {f"{target}/{'embeddings' if target == 'words' else 'kernel'}"}


def by_name(engine: Any) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable) for variable in engine.model.variables}


def test_evaluations_while_it_adapts_are_those_of_the_merged_model(snapshot: SnapshotReader) -> None:
    config = CONFIG.model_copy(update={"lora": LORA, "ema": 0.5})
    engine = make_engine(config, MODEL, snapshot, make_plan(config, 10, (7,)), 5, Cluster())
    engine.seek(0)
    engine.step(make_plan(config, 10, ()).rates(0, 3))
    batch = [snapshot.reader("validation", 5, order="stored")[0]]
    plain = make_engine(CONFIG, MODEL, snapshot, make_plan(CONFIG, 10, (7,)), 5, Cluster())
    plain.begin_with(engine.weights())
    assert engine.score(batch) == pytest.approx(plain.score(batch), rel=1e-5)
    engine.close()
    plain.close()


def test_an_adaptation_is_not_scored_beside_the_training_and_a_frozen_layer_has_no_rate(
    snapshot: SnapshotReader,
) -> None:
    with pytest.raises(Conflict, match="evaluate .*gets merged weights"):
        raise_conflict(lambda: TrainConfig(steps=3, lora=LORA, evaluate="sidecar"))
    config = CONFIG.model_copy(update={"freeze": ("dense0",), "layer_rates": {"dense0": 0.5}})
    with pytest.raises(Failed, match="train.layer_rates: dense0; names no layer that is trained; use names of dense1"):
        make_engine(config, MODEL, snapshot, make_plan(config, 10, (7,)), 5, Cluster())


def test_an_adaptation_with_averages_and_dropout_resumes_exactly(
    trained: Model, tiny: Snapshot, benches: Callable[[str], Workbench]
) -> None:
    """Under float16, which has the most state."""
    options = {"init": ModelInit(model="0" * 64), "lora": LORA, "ema": 0.9, "precision": "float16"}
    config = CONFIG.model_copy(update=options)
    whole, broken = benches("whole"), benches("broken")
    fit(whole, tiny, MODEL, config, seed=5, start=trained)
    with pytest.raises(Stopped):
        fit(replace(broken, stopping=stopping_after(2)), tiny, MODEL, config, seed=5, start=trained)
    fit(broken, tiny, MODEL, config, seed=5, start=trained)
    assert files(broken) == files(whole)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Mirrored(devices=2), Pipeline(devices=2)])
def test_two_devices_adapt_as_one(
    strategy: Any, trained: Model, tiny: Snapshot, benches: Callable[[str], Workbench], tmp_path: Path
) -> None:
    model = MODEL.model_copy(update={"dropout": 0.0})
    options = {"init": FileInit(path=str(trained.path / "model.keras")), "lora": LORA, "ema": 0.9, "optimizer": Sgd()}
    options["layer_rates"] = {"logits": 0.5}
    one, two = benches("one"), benches("two")
    fit(one, tiny, model, CONFIG.model_copy(update=options), seed=5)
    with ProcessLauncher(tmp_path, 2).gang("train") as gang:
        arguments = (tiny, model, CONFIG.model_copy(update={**options, "strategy": strategy}), 5)
        limits = Limits("resources.timeout", 120)
        journal, nothing = tmp_path / "two.jsonl", lambda *_: None
        gang.call(Work(fit, arguments), two.staging, journal, limits=limits, on_report=nothing)
    expected, got = by_path(one.staging.root), by_path(two.staging.root)
    assert all(np.allclose(got[path], expected[path], atol=3e-7) for path in expected)
