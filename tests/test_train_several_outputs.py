"""Several outputs: further columns are learnt beside the main one, by a weighted sum of losses, exact as one output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from flows.commands.predict import formatted
from tasks.artifacts import Model, Records, Report, Snapshot
from tasks.config.base import identity
from tasks.config.compose import load, validate
from tasks.errors import Failed, Refused, Stopped
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting import further
from tasks.exporting.export import further_outputs_of, golden_inputs, task_of
from tasks.exporting.formats.saved_model import SavedModel, functions_in
from tasks.exporting.predict import columns_of
from tasks.exporting.prediction import predictions
from tasks.exporting.verify import compared
from tasks.feed import open_snapshot
from tasks.models import keras_file
from tasks.models.architectures.mlp import MlpModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.models.features import model_inputs
from tasks.models.forward import predict
from tasks.models.outputs import FURTHER, further_function, with_main_output
from tasks.processes.workbench import Workbench
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.runner import identities
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources.kinds.tables import CsvSource
from tasks.training.config import TrainConfig
from tasks.training.engines.objectives import weighted_sum
from tasks.training.engines.tensorflow.engine import make_objective
from tasks.training.fit import fit
from tasks.training.meter import Meter
from tasks.training.sections import CheckpointConfig
from tasks.view import outputs as view
from tasks.view.charts import charts_of
from tests.support.tiny import FILES, stopping_after

COLUMNS = {"area": "number", "town": "category", "price": "number", "sold": "category", "rooms": "number"}
LOSSES = {"sold": {"task": "classification", "weight": 0.25}, "rooms": {"task": "regression", "loss": "absolute_error"}}
CONFIG = TrainConfig.model_validate(
    {"steps": 6, "batch_size": 8, "losses": LOSSES, "log_every": 2, "evaluate_every": 3, "learning_rate": 0.01}
).model_copy(update={"checkpoint": CheckpointConfig(every=3)})
MLP = MlpModel(task="regression", units=(8,))
NETS = """
import keras
from keras import layers

def make(features, names, units=(1, 2, 1), activations=(None, None, None)):
    inputs = {
        "numbers": keras.Input(features["numbers"]["shape"], name="numbers"),
        "categories": keras.Input((1,), name="categories", dtype="int32"),
    }
    town = layers.Flatten()(layers.Embedding(features["categories"]["sizes"][0], 4)(inputs["categories"]))
    x = layers.Concatenate()([inputs["numbers"], town])
    heads = [layers.Dense(size, activation) for size, activation in zip(units, activations)]
    return keras.Model(inputs, {name: head(x) for name, head in zip(names, heads)})
"""


def source_of(folder: Path, **more: Any) -> CsvSource:
    given = {"path": str(folder / "houses.csv"), "columns": COLUMNS, "targets": ["price"], "outputs": ["sold", "rooms"]}
    return CsvSource.model_validate(given | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 houses in a table, two of which lack a further answer, and a model of the user's."""
    folder, random = tmp_path_factory.mktemp("houses"), np.random.default_rng(3)
    rows = [["area", "town", "price", "sold", "rooms"]]
    for number in range(64):
        area = random.uniform(30, 200)
        sold = "" if number == 7 else "yes" if area + random.normal(0, 20) < 110 else "no"
        rooms = "NA" if number == 9 else f"{area / 28:.2f}"
        rows.append([f"{area:.1f}", "AB"[number % 2], f"{3 * area + random.normal(0, 9):.1f}", sold, rooms])
    (folder / "houses.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    (folder / "nets.py").write_text(NETS)
    return folder


@pytest.fixture(scope="module")
def records(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> Records:
    bench = workbench_at(tmp_path_factory.mktemp("records") / "staging")
    config = RecordsConfig(splits={"train": 0.5, "validation": 0.25, "test": 0.25}, bad_budget=2)
    return publish(Records, bench, conversion.build(bench, source_of(folder), config))


@pytest.fixture(scope="module")
def snapshot(
    records: Records, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> Snapshot:
    bench = workbench_at(tmp_path_factory.mktemp("snapshot") / "staging")
    return publish(Snapshot, bench, snapshots.build(bench, records, TableSnapshot()))


@pytest.fixture(scope="module")
def run(
    snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory, workbench_at: Callable, publish: Callable
) -> tuple[Workbench, Model]:
    bench = workbench_at(tmp_path_factory.mktemp("model") / "staging")
    return bench, publish(Model, bench, fit(bench, snapshot, MLP, CONFIG, seed=5))


@pytest.fixture
def trained(run: tuple[Workbench, Model]) -> Workbench:
    """A training that nothing interrupted."""
    return run[0]


def made(bench: Workbench) -> dict[str, bytes]:
    return {name: (bench.staging.root / name).read_bytes() for name in FILES}


def test_further_columns_are_answers_with_their_types_and_no_inputs(records: Records, snapshot: Snapshot) -> None:
    features, reader = snapshot.manifest["features"], open_snapshot(snapshot.path)
    assert [each.name for each in model_inputs(features)] == ["categories", "numbers"]
    assert features["numbers"]["names"] == ["area"]
    assert features["output_of.sold"] | {"classes": ["no", "yes"], "column": "sold"} == features["output_of.sold"]
    rooms = np.asarray(reader.arrays("train")["output_of.rooms"])
    np.testing.assert_allclose(features["output_of.rooms"]["mean"], rooms.mean(axis=0), rtol=1e-6)
    of_records = RecordsReader(records.path)
    for split in reader.counts:
        [table] = of_records.tables(split, ["sold", "rooms"])
        arrays = reader.arrays(split)
        np.testing.assert_array_equal(arrays["output_of.sold"], table["sold"].to_numpy())
        np.testing.assert_array_equal(np.asarray(arrays["output_of.rooms"])[:, 0], table["rooms"].to_numpy())


def test_a_missing_answer_is_a_bad_example_counted_and_named(records: Records, folder: Path, bench: Workbench) -> None:
    assert (records.manifest["counts"]["read"], records.manifest["counts"]["quarantined"]) == (64, 2)
    reasons = [reason for _, reason, _ in records.manifest["statistics"]["quarantined"]]
    assert reasons == ["sold: missing", "rooms: missing"]
    with pytest.raises(Failed, match=r"records.bad_budget: 2 bad: .*houses.csv.*missing"):
        conversion.build(bench, source_of(folder), RecordsConfig())


@pytest.mark.parametrize("class_weights", [None, {"no": 2.0, "yes": 1.0}])
def test_what_is_minimised_is_the_weighted_sum_with_one_weight_for_an_example(class_weights: Any) -> None:
    """In NumPy; and slices of the batch add up to the whole, as replicas and micro-batches do."""
    features = {
        "label": {"classes": ["no", "yes"], "shape": [], "column": "sold"},
        "output_of.kind": {"classes": ["a", "b", "c"], "shape": [], "column": "kind"},
        "output_of.rooms": {"shape": [1], "names": ["rooms"], "column": "rooms"},
    }
    losses = {"kind": {"task": "classification", "weight": 0.5}, "rooms": {"task": "regression", "weight": 3.0}}
    config = TrainConfig.model_validate({"steps": 1, "losses": losses, "class_weights": class_weights})
    reader: Any = type("Reader", (), {"features": features})()
    objective = make_objective("classification", config, reader)
    outputs = np.random.default_rng(1).normal(size=(4, 2 + 3 + 1)).astype(np.float32)
    batch = {
        "label": np.array([0, 1, 1, 0]),
        "output_of.kind": np.array([2, 0, 1, 1]),
        "output_of.rooms": np.array([[1.0], [-2.0], [0.5], [0.0]], np.float32),
        "weight": np.array([1.0, 0.5, 2.0, 0.0], np.float32),
    }

    def sums(rows: slice) -> dict[str, float]:
        tensors = {name: tf.constant(values[rows]) for name, values in batch.items()}
        return {name: float(value) for name, value in objective(tensors, tf.constant(outputs[rows])).sums().items()}

    def entropy(label: np.ndarray, logits: np.ndarray) -> np.ndarray:
        logits = logits.astype(np.float64)
        return np.log(np.exp(logits).sum(-1)) - logits[np.arange(4), label]

    weights = batch["weight"] * (np.array([2.0, 1.0])[batch["label"]] if class_weights else 1.0)
    main, kind = entropy(batch["label"], outputs[:, :2]), entropy(batch["output_of.kind"], outputs[:, 2:5])
    rooms = ((outputs[:, 5:] - batch["output_of.rooms"]) ** 2)[:, 0]
    found = sums(slice(None))
    expected = {"loss": weights @ main, "kind/loss": weights @ kind, "rooms/loss": weights @ rooms}
    expected["total_loss"] = expected["loss"] + 0.5 * expected["kind/loss"] + 3 * expected["rooms/loss"]
    right = outputs[:3, 2:5].argmax(-1) == batch["output_of.kind"][:3]
    expected |= {
        "weight": weights.sum(),
        "seen": 3.0,
        "kind/accuracy": right.sum(),
        "rooms/squared_error": rooms[:3].sum(),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    halves = [sums(slice(0, 2)), sums(slice(2, 4))]
    assert found == pytest.approx({name: sum(half[name] for half in halves) for name in found}, rel=1e-6)
    assert tuple(found) == objective.sums
    np.testing.assert_array_equal(objective.main(outputs), outputs[:, :2])


def test_losses_are_means_by_weight_and_metrics_by_number() -> None:
    sums = {"loss": 4.0, "weight": 2.0, "seen": 4.0, "total_loss": 10.0, "sold/loss": 6.0, "sold/accuracy": 2.0}
    assert Meter(sums=sums).means() == {"loss": 2.0, "total_loss": 5.0, "sold/loss": 3.0, "sold/accuracy": 0.5}


def test_several_targets_of_the_main_output_weigh_no_more_than_one() -> None:
    """Where the main output has two numbers, its weights count both; a further loss is then counted for both too."""
    loss, weights = tf.constant([[4.0], [1.0]]), tf.constant([[1.0, 1.0], [0.5, 0.5]])
    assert float(weighted_sum([loss], weights)) / float(tf.reduce_sum(weights)) == (4.0 + 0.5) / 1.5


def test_stopped_and_resumed_it_has_the_same_bytes(
    snapshot: Snapshot, trained: Workbench, benches: Callable[[str], Workbench]
) -> None:
    broken = benches("broken")
    with pytest.raises(Stopped):
        fit(replace(broken, stopping=stopping_after(2)), snapshot, MLP, CONFIG, seed=5)
    fit(broken, snapshot, MLP, CONFIG, seed=5)
    assert made(broken) == made(trained)


def test_micro_batches_and_recomputation_change_rounding_alone(
    snapshot: Snapshot, trained: Workbench, benches: Callable[[str], Workbench]
) -> None:
    changed = benches("changed")
    fit(changed, snapshot, MLP, CONFIG.model_copy(update={"accumulate": 2, "remat": True}), seed=5)
    one, other = (keras_file.load(bench.staging.root).get_weights() for bench in (trained, changed))
    assert len(one) == 2 + 1 + 3 * 2, "trunk, embedding, and a layer for each output"
    for before, after in zip(one, other, strict=True):
        np.testing.assert_allclose(before, after, atol=1e-5)


def test_the_weight_of_a_further_loss_is_in_the_digest() -> None:
    rooms = CONFIG.losses["rooms"].model_copy(update={"weight": 2.0})
    changed = CONFIG.model_copy(update={"losses": {**CONFIG.losses, "rooms": rooms}})
    assert identity(changed) != identity(CONFIG)
    assert "losses" not in identity(CONFIG.model_copy(update={"losses": {}}))


def test_curves_have_the_sum_and_the_loss_and_metric_of_each_output(trained: Workbench) -> None:
    metrics = [point for _, point in trained.journal.points]  # type: ignore[attr-defined]
    for prefix, wanted in (("train", 3), ("validation", 2)):
        of_split = [each for each in metrics if f"{prefix}/loss" in each]
        assert len(of_split) == wanted
        for each in of_split:
            total = each[f"{prefix}/loss"] + 0.25 * each[f"{prefix}/sold/loss"] + each[f"{prefix}/rooms/loss"]
            assert each[f"{prefix}/total_loss"] == pytest.approx(total, rel=1e-5)
            assert 0 <= each[f"{prefix}/sold/accuracy"] <= 1 and each[f"{prefix}/rooms/squared_error"] > 0


def test_the_report_has_the_metrics_of_each_and_decides_by_the_main_one(
    records: Records,
    snapshot: Snapshot,
    run: tuple[Workbench, Model],
    benches: Callable[[str], Workbench],
    publish: Callable,
) -> None:
    (_, model), bench = run, benches("report")
    report = publish(Report, bench, evaluate(bench, model, snapshot, records, EvaluateConfig(resamples=100)))
    test = json.loads((report.path / "report.json").read_bytes())["splits"]["test"]
    arrays = open_snapshot(snapshot.path).arrays("test")
    inputs = {each.name: np.asarray(arrays[each.name]) for each in model_inputs(snapshot.manifest["features"])}
    answers = keras_file.load(model.path).predict(inputs, verbose=0)
    rooms, logits = answers[:, 1], answers[:, 2:]
    right = logits.argmax(-1) == np.asarray(arrays["output_of.sold"])
    errors = np.abs(rooms - np.asarray(arrays["output_of.rooms"])[:, 0])
    assert (
        report.metrics["test/sold/accuracy"] == test["outputs"]["sold"]["metrics"]["accuracy"]["value"] == right.mean()
    )
    assert report.metrics["test/sold/accuracy/low"] <= right.mean() <= report.metrics["test/sold/accuracy/high"]
    for name in ("mae", "loss"):
        assert report.metrics[f"test/rooms/{name}"] == pytest.approx(errors.mean(), rel=1e-5), (
            "the loss that is its own"
        )
    assert "test/rmse" in report.metrics and "test/accuracy" not in report.metrics
    assert test["outputs"]["sold"]["baselines"]["majority_accuracy"] >= 0.5
    main = with_main_output(keras_file.load(model.path))
    assert main.output_shape == (None, 1)
    np.testing.assert_array_equal(np.load(report.path / "predictions/test.npy"), main.predict(inputs, verbose=0))


def test_an_export_answers_for_each_output_by_name(
    snapshot: Snapshot, run: tuple[Workbench, Model], tmp_path: Path
) -> None:
    """Its SavedModel does; a fresh process compares them with Keras', each by the share of its own size."""
    model, features = run[1], snapshot.manifest["features"]
    whole, inputs = keras_file.load(model.path), golden_inputs(snapshot, 5)
    main, [function] = with_main_output(whole), further_function(whole, features)
    SavedModel.write(main, None, None, tmp_path / "saved_model", [function])
    assert functions_in(tmp_path / "saved_model") == [], "other formats have the main output alone"
    loaded = SavedModel(tmp_path / "saved_model", 1)
    assert FURTHER in loaded.interface["signatures"]
    arrays, outputs = inputs[:], predict(main, inputs)
    golden = {name.partition("/")[2]: each for name, each in further_outputs_of(whole, inputs, features).items()}
    assert {name: each.shape for name, each in golden.items()} == {"rooms": (5, 1), "sold": (5, 2)}
    np.testing.assert_allclose(loaded.run(FURTHER, arrays)["sold"], golden["sold"], rtol=1e-5)

    def difference(further: dict[str, np.ndarray]) -> float:
        found: float = compared(loaded, loaded.interface, arrays, {}, outputs, None, further)["max_abs_difference"]
        return found

    assert difference(golden) <= 1e-5 * np.abs(outputs).max()
    wrong = np.abs(outputs).max() * 0.5 / max(1.0, np.abs(golden["rooms"] + 0.5).max())
    assert difference(golden | {"rooms": golden["rooms"] + 0.5}) == pytest.approx(wrong, rel=1e-3)

    about = task_of(model, snapshot)
    [answer, *_] = predictions(outputs, about, arrays, loaded.run(FURTHER, arrays))
    top = int(golden["sold"][0].argmax())
    assert answer["values"] == {"price": pytest.approx(float(outputs[0, 0]))}
    assert answer["further"]["rooms"] == {"values": {"rooms": pytest.approx(float(golden["rooms"][0, 0]), rel=1e-5)}}
    assert answer["further"]["sold"]["class"] == ["no", "yes"][top]
    assert re.fullmatch(r"x: price \S+; rooms \S+; sold (yes|no) \(0\.\d{3}\)", formatted({"input": "x", **answer}))
    row = columns_of({"input": "x", **answer}, about)
    assert list(row)[:5] == ["input", "predicted price", "predicted rooms", "class of sold", "confidence of sold"]
    said = further.section(about["further"], "numpy", "", 0.1)
    assert "| sold | `sold` | float32 [batch, 2], the logit of each class: no, yes |" in said


def test_a_single_further_output_is_answered_by_its_name(snapshot: Snapshot) -> None:
    features = {name: each for name, each in snapshot.manifest["features"].items() if name != "output_of.rooms"}
    features = {name: each for name, each in features.items() if name != "categories"}
    [function] = further_function(MLP.build(features, 1), features)
    answers = function.call({"numbers": np.zeros((3, 1), np.float32)})
    assert {name: tuple(each.shape) for name, each in answers.items()} == {"sold": (3, 2)}


def test_a_model_of_the_users_returns_a_dict_by_column(folder: Path, snapshot: Snapshot) -> None:
    def brought(names: list[str], **more: Any) -> keras.Model:
        given = {"names": names, **more}
        model = ImportedModel(task="regression", target="nets:make", arguments=given, folder=str(folder))
        return model.build(snapshot.manifest["features"], 1)

    model = brought(["price", "sold", "rooms"])
    assert model.output_shape == (None, 1 + 1 + 2), "the main one, then the others in order of name"
    with pytest.raises(
        Failed, match=r"model.target: .* outputs price, sold; each column .* price, rooms, sold; .*dict"
    ):
        brought(["price", "sold"])
    with pytest.raises(Failed, match=r"output sold has shape \[None, 1\]; classification of sold needs \[None, 2\]"):
        brought(["price", "sold", "rooms"], units=[1, 1, 1])
    with pytest.raises(Failed, match=r"its last layer dense_1 has the activation softmax; outputs are logits"):
        brought(["price", "sold", "rooms"], activations=[None, "softmax", None])
    brought(["price", "sold", "rooms"], activations=["sigmoid", None, "sigmoid"])


def test_a_loss_of_the_users_is_in_the_digest_and_named_in_errors(
    snapshot: Snapshot, tmp_path: Path, benches: Callable[[str], Workbench]
) -> None:
    (tmp_path / "losses.py").write_text("def huber(target, outputs):\n    return (target - outputs).no_such_method()\n")
    sold = {"task": "classification", "weight": 0.25}
    given = {"steps": 3, "losses": {"sold": sold, "rooms": {"task": "regression", "loss": "losses:huber"}}}
    config = TrainConfig.model_validate(given | {"folder": str(tmp_path)})
    sources = identities.model(snapshot, MLP, config, 5).inputs(Model)["sources"]
    assert [name for name, _ in sources] == ["loss/losses.py"]
    with pytest.raises(Failed, match=r"train.losses.rooms.loss: losses.py line 2: .*no_such_method"):
        fit(benches("wrong"), snapshot, MLP, config, seed=5)
    preset = tmp_path / "preset.yaml"
    source = source_of(tmp_path).model_dump(mode="json", exclude_defaults=True) | {"kind": "csv"}
    values = {"name": "own", "source": source, "snapshot": {"kind": "table"}, "train": given}
    preset.write_text(json.dumps({**values, "model": {"kind": "mlp", "task": "regression"}}))
    assert load(preset).train.folder == str(tmp_path)


def test_terminal_and_page_show_what_each_output_is_worth() -> None:
    config = validate({**WHOLE, "train": {"steps": 3, "losses": {"sold": LOSSES["sold"]}}, "source": SOLD})
    name = "test/sold/accuracy"
    metrics = {name: 0.75, f"{name}/low": 0.5, f"{name}/high": 0.875, "test/sold/majority_accuracy": 0.625}
    facts: Any = SimpleNamespace(config=config, metrics=metrics)
    assert list(view.lines(facts)) == ["sold: accuracy 0.7500 [0.5000, 0.8750] (majority 0.6250)"]
    assert [(row[0], row[2]) for row in view.metrics(facts)] == [
        ("sold: accuracy", [None, ("0.7500", "0.5000 to 0.8750")]),
        ("sold: majority accuracy", [None, ("0.6250", "")]),
    ]
    named = [chart.names for chart in charts_of(["train/sold/loss", "validation/sold/loss", "validation/rmse"])]
    assert {"train/sold/loss": "train", "validation/sold/loss": "validation"} in named
    assert {"validation/rmse": "validation"} in named


WHOLE: dict[str, Any] = {
    "name": "houses",
    "source": {
        "kind": "csv",
        "path": "houses.csv",
        "columns": COLUMNS,
        "targets": ["price"],
        "outputs": ["sold", "rooms"],
    },
    "snapshot": {"kind": "table"},
    "model": {"kind": "mlp", "task": "regression"},
    "train": {"steps": 3, "losses": LOSSES},
}


SOLD = {**WHOLE["source"], "outputs": ["sold"], "columns": {**COLUMNS, "rooms": "ignore"}}


@pytest.mark.parametrize(
    ("section", "change", "says"),
    [
        (
            "train",
            {"losses": {**LOSSES, "price": LOSSES["rooms"]}},
            "train.losses: price; is predicted by the main outp",
        ),
        (
            "train",
            {"losses": {**LOSSES, "roms": LOSSES["rooms"]}},
            "train.losses: roms; is a column of the source, which",
        ),
        (
            "train",
            {"losses": {**LOSSES, "area": LOSSES["rooms"]}},
            "train.losses: area; .*; add area to source.outputs",
        ),
        ("train", {"losses": {"sold": LOSSES["sold"]}}, "train.losses: rooms; is a further output, and has no loss"),
        (
            "train",
            {"losses": {**LOSSES, "sold": LOSSES["rooms"]}},
            "losses.sold.task: regression; learns a column of type num",
        ),
        (
            "train",
            {"losses": {**LOSSES, "sold": {"task": "classification", "loss": "squared_error"}}},
            "train.losses.sold.loss: squared_error; the losses of classification are cross_entropy",
        ),
        ("train", {"folder": "/somewhere"}, "train.folder: .*; is ignored"),
        ("train", {"augment": [{"kind": "mixup"}]}, "train.augment: mixup; mixes the labels or targets"),
        ("source", {"targets": [], "outputs": ["sold"]}, "source.outputs: .*; name one of them as source.label"),
        (
            "source",
            {"columns": {**COLUMNS, "sold": "text"}},
            "source.outputs: sold; is of type text, and outputs must be",
        ),
        ("source", {"outputs": ["sold", "price"]}, "source.outputs: price; is the targets too"),
        ("snapshot", {"kind": "tokens"}, "train.losses: .* use snapshot.kind table"),
        ("compress", {"methods": ["prune"]}, "compress: prune; makes another model"),
        ("evaluate", {"primary": "sold/accuracy"}, "evaluate.primary: sold/accuracy; .* those of regression are rmse,"),
    ],
)
def test_what_would_be_ignored_is_refused(section: str, change: dict[str, Any], says: str) -> None:
    validate(WHOLE)
    with pytest.raises(Refused, match=says):
        validate({**WHOLE, section: {**WHOLE.get(section, {}), **change}})


def test_a_further_output_is_not_called_as_other_metrics_begin() -> None:
    source = {**WHOLE["source"], "columns": {**COLUMNS, "update_ratio": "number"}, "outputs": ["update_ratio"]}
    with pytest.raises(
        Refused, match=r"train.losses: update_ratio; begins the names of other metrics, .*; rename the col"
    ):
        validate({**WHOLE, "source": source, "train": {"steps": 3, "losses": {"update_ratio": LOSSES["rooms"]}}})


def test_a_source_without_columns_and_a_task_of_tokens_have_no_further_outputs() -> None:
    with pytest.raises(Refused, match=r"train.losses: sold; is a column of the source, .* not named in its config"):
        validate({"name": "digits", "train": {"steps": 3, "losses": LOSSES}})
    source = {"columns": {"words": "words", "tags": "tags", "sold": "category"}, "label": "tags", "outputs": ["sold"]}
    given = {"source": {"kind": "jsonl", "path": "x", **source}, "model": {"kind": "encoder", "task": "tagging"}}
    with pytest.raises(
        Refused, match="train.losses: sold; has an answer for an example, and tagging one for each token"
    ):
        validate({**WHOLE, **given, "train": {"steps": 3, "losses": {"sold": LOSSES["sold"]}}})
