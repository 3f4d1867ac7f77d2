"""Sequence tagging, from lists of words and tags to the report, the export and its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, f1_score

from tasks.artifacts import Export, Model, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.methods.distill import Distill
from tasks.compression.specs import VariantSpec
from tasks.compression.variants import build as compress
from tasks.compression.verdicts import judge as judge_variants
from tasks.config.base import Conflict
from tasks.config.compose import Config
from tasks.errors import Failed, Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.gating import FloatGate, Subject
from tasks.evaluation.judging import run_model
from tasks.evaluation.report import build
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.tagging import METRICS, Predictions, scheme_of
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.exporting.predict import predict
from tasks.exporting.score import RawSplit, score
from tasks.feed import open_snapshot
from tasks.feed.needs import check_task
from tasks.models.architectures.encoder import EncoderModel
from tasks.models.architectures.user_models import ImportedModel
from tasks.models.forward import inference_function
from tasks.models.keras_file import load
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TableSnapshot
from tasks.sources.kinds.columns import features_of
from tasks.sources.kinds.tables import CsvSource, JsonlSource, ParquetSource
from tasks.training.checkpoints import STATE, unpack
from tasks.training.config import TrainConfig
from tasks.training.engines.tensorflow.engine import make_objective
from tasks.training.fit import fit
from tasks.training.optimizers import Sgd
from tasks.training.sections import CheckpointConfig
from tasks.training.strategies import Mirrored
from tasks.view.report import lines, read
from tests.support.damage import without_largest_weights
from tests.support.forms import of
from tests.support.pages import page_of
from tests.support.pasted import pasted

LENGTH, SENTENCES = 12, 700
MODEL = EncoderModel(task="tagging", width=16, heads=2, hidden=32, layers=1, dropout=0.0)
TRAIN = TrainConfig(
    steps=240, batch_size=32, learning_rate=0.02, checkpoint=CheckpointConfig(every=240), evaluate_every=240
)
SNAPSHOT = TableSnapshot.model_validate(
    {"kind": "table", "transforms": {"tokens": {"kind": "words", "length": LENGTH}}}
)
EVALUATE = EvaluateConfig.model_validate({"resamples": 200, "slices": ["page < 'p25'"], "robustness": ["typos"]})
SPLITS = RecordsConfig(splits={"train": 0.6, "validation": 0.15, "test": 0.25})


def sentences(count: int) -> list[dict[str, Any]]:
    """Words of which those after Mr are a person, of one or two capitalised words, and the one after near a place."""
    random, rows = np.random.default_rng(5), []
    for number in range(count):
        tokens: list[str] = []
        tags: list[str] = []
        while len(tokens) < random.integers(2, 16):
            what = random.integers(5)
            name = f"N{random.integers(4000)}"
            if what == 0:
                more = random.random() < 0.5
                tokens += ["Mr", name, *["Lee"] * more]
                tags += ["O", "B-PER", *["I-PER"] * more]
            elif what == 1:
                tokens, tags = [*tokens, "near", name], [*tags, "O", "B-LOC"]
            else:
                tokens, tags = [*tokens, str(random.choice(["the", "dog", "Lee", "ran"]))], [*tags, "O"]
        rows.append({"tokens": tokens, "ner_tags": tags, "page": f"p{number % 50:02d}"})
    return rows


def source_of(folder: Path, rows: Sequence[dict[str, Any]], **more: Any) -> JsonlSource:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {"tokens": "words", "ner_tags": "tags", "page": "category"}
    return JsonlSource.model_validate(
        {"path": str(folder), "columns": columns, "label": "ner_tags", "group": "page", **more}
    )


@dataclass(frozen=True)
class Tagged:
    """A trained tagger and what it was made of."""

    records: Records
    snapshot: Snapshot
    model: Model
    report: Report
    source: JsonlSource


@pytest.fixture(scope="module")
def tagged(tf: Any, tmp_path_factory: Any, workbench_at: Any, publish: Any) -> Tagged:
    root = tmp_path_factory.mktemp("tagged")
    bench = workbench_at(root / "records")
    source = source_of(root / "raw", sentences(SENTENCES))
    made = publish(Records, bench, conversion.build(bench, source, SPLITS))
    bench = workbench_at(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, SNAPSHOT))
    bench = workbench_at(root / "model")
    model = publish(Model, bench, fit(bench, snapshot, MODEL, TRAIN, seed=1))
    bench = workbench_at(root / "report")
    report = publish(Report, bench, build(bench, model, snapshot, made, EVALUATE))
    return Tagged(made, snapshot, model, report, source)


def entities_of(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Type, first and last place of entities, read word by word as conlleval does."""
    found: set[tuple[str, int, int]] = set()
    kind, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, own = tag.partition("-")
        if kind and (prefix != "I" or own != kind):
            found.add((kind, start, place - 1))
            kind = ""
        if prefix == "B" or (prefix == "I" and not kind):
            kind, start = own, place
    return found


NO_ANSWER = "-"
"""Of a word that is cut: a class that no word has."""


def reference(tags: list[list[str]], labels: list[list[str]]) -> dict[str, float]:
    """The metrics by scikit-learn and by sets of entities."""
    flat, true = ([each for row in rows for each in row] for rows in (tags, labels))
    both = [(entities_of(one), entities_of(other)) for one, other in zip(tags, labels, strict=True)]
    right, predicted, there = (sum(map(len, sets)) for sets in zip(*((a & b, a, b) for a, b in both), strict=True))
    return {
        "token_accuracy": accuracy_score(true, flat),
        "macro_f1": f1_score(true, flat, labels=sorted({*true, *flat} - {NO_ANSWER}), average="macro"),
        "entity_precision": right / predicted,
        "entity_recall": right / there,
        "entity_f1": 2 * right / (predicted + there),
    }


def named(numbers: np.ndarray, names: Sequence[str]) -> list[list[str]]:
    return [[names[number] for number in row[row >= 0]] for row in numbers]


def test_it_learns_beyond_the_baseline_and_its_metrics_are_those_of_scikit_learn(
    tagged: Tagged, tmp_path: Path
) -> None:
    metrics, features = tagged.report.metrics, open_snapshot(tagged.snapshot.path).features
    assert features["label"]["classes"] == ["B-LOC", "B-PER", "I-PER", "O"]
    labels = np.asarray(open_snapshot(tagged.snapshot.path).arrays("test")["label"][:])
    tags = np.load(tagged.report.path / "predictions" / "test.npy")
    assert ((tags < 0) == (labels < 0)).all() and (labels < 0).any()
    classes = features["label"]["classes"]
    whole = SnapshotSplit(tagged.snapshot.path, tagged.records.path, "test").tags()
    true = [[classes[number] for number in row] for row in whole]
    answers = [
        [*row, *[NO_ANSWER] * (len(other) - len(row))] for row, other in zip(named(tags, classes), true, strict=True)
    ]
    for name, value in reference(answers, true).items():
        assert metrics[f"test/{name}"] == pytest.approx(value, rel=1e-12), name
        assert metrics[f"test/{name}/low"] <= value <= metrics[f"test/{name}/high"]
    assert metrics["test/entity_f1"] > 0.8 and metrics["test/macro_f1"] > 0.85
    assert metrics["test/majority_macro_f1"] < 0.3

    content = json.loads((tagged.report.path / "report.json").read_bytes())
    test = content["splits"]["test"]
    kept = [row for row in sentences(SENTENCES) if len(row["tokens"]) > LENGTH]
    cut = features["label"]["cut"]
    assert sum(cut.values()) == sum(len(row["tokens"]) - LENGTH for row in kept) > 0
    assert test["cut"] == cut["test"] and test["tokens"] == int((labels >= 0).sum()) + cut["test"]
    assert {row["class"] for row in test["entities"]} == {"entity LOC", "entity PER"}
    assert {"page < 'p25'"} < {row["slice"] for row in test["slices"]}
    assert any(row["slice"].endswith("tokens") for row in test["slices"])
    assert test["robustness"][0]["drop"]["value"] > 0.01, "a typo makes Mr unknown"
    assert f"{cut['test']} more were cut" in dict(lines(read(content)))["tokens"]
    whole = Config(name="names", source=tagged.source, snapshot=SNAPSHOT, model=MODEL, train=TRAIN, evaluate=EVALUATE)
    page = page_of(tmp_path / "home", whole, convert=tagged.records, snapshot=tagged.snapshot, evaluate=tagged.report)
    assert "entity PER" in page and "entity f1" in page and "of always predicting the most frequent class" in page


@pytest.mark.parametrize("count", [1, 40])
def test_broken_schemes_are_read_as_conlleval_reads_them(count: int) -> None:
    names = ("O", "B-A", "I-A", "B-B", "I-B", "I-C")
    random = np.random.default_rng(count)
    shape = (count, 9)
    tags, labels = (random.integers(0, len(names), shape).astype(np.int32) for _ in range(2))
    lengths = random.integers(1, 10, count)
    tags[np.arange(9) >= lengths[:, None]] = labels[np.arange(9) >= lengths[:, None]] = -1
    predictions = Predictions(tags, labels, names)
    for name, value in reference(named(tags, names), named(labels, names)).items():
        assert METRICS[name](predictions) == pytest.approx(value, rel=1e-12), name
    assert len(predictions.entities[0].row) == sum(len(entities_of(row)) for row in named(tags, names))
    assert scheme_of(["O", "NOUN"]) is None and scheme_of(["O", "I-A"]) is None


def test_neither_batches_nor_padding_change_a_tag(tagged: Tagged) -> None:
    call = inference_function(load(tagged.model.path))
    split = SnapshotSplit(tagged.snapshot.path, tagged.records.path, "test")
    judge = make_judge("tagging", split, EVALUATE)
    whole, single = (run_model(judge, call, batch_size=size).kept for size in (64, 1))
    np.testing.assert_array_equal(whole["tags"], single["tags"])
    np.testing.assert_allclose(whole["nats"], single["nats"], rtol=1e-4, atol=1e-5)
    assert (whole["nats"][judge.labels[:, :LENGTH] < 0] == 0).all()
    for name, metric in judge.metrics.items():
        one, other = (metric(judge.predictions(each)) for each in (whole, single))
        assert one == pytest.approx(other, rel=1e-5), name

    short = judge.labels[:, 5] < 0
    inputs = judge.inputs[short]
    longer = {name: np.pad(values, ((0, 0), (0, 7))) for name, values in inputs.items()}
    cut = {name: values[:, :5] for name, values in inputs.items()}
    expected = call(inputs)
    np.testing.assert_allclose(call(longer)[:, :LENGTH], expected, atol=2e-5)
    np.testing.assert_allclose(call(cut), expected[:, :5], atol=2e-5)


def test_a_loss_counts_each_real_token_once(tf: Any, tagged: Tagged) -> None:
    """Also of outputs that are shorter, as columns of padding were left out, and of examples with a weight."""
    snapshot = open_snapshot(tagged.snapshot.path)
    random = np.random.default_rng(1)
    labels = np.full((3, LENGTH), -1, np.int32)
    labels[0, :2], labels[1, :4], labels[2, :1] = [3, 0], [3, 1, 2, 3], 1
    logits, weight = random.normal(0, 1, (3, 5, 4)).astype(np.float32), np.array([1, 0.5, 0], np.float32)
    objective = make_objective("tagging", TRAIN, snapshot)
    scored = objective({"label": tf.constant(labels), "weight": tf.constant(weight)}, tf.constant(logits))
    sums = {name: float(value) for name, value in scored.sums().items()}
    losses = -log_softmax(logits.astype(np.float64), axis=-1)
    expected = [
        sum(losses[row, place, labels[row, place]] for place in range(count)) for row, count in ((0, 2), (1, 4))
    ]
    assert sums["loss"] == pytest.approx(expected[0] + 0.5 * expected[1], rel=1e-5)
    assert (sums["weight"], sums["seen"]) == (2 + 0.5 * 4, 6), "a weight is one of the loss alone"
    right = [(logits[row].argmax(-1) == labels[row, :5])[:count].sum() for row, count in ((0, 2), (1, 4))]
    assert sums["accuracy"] == right[0] + right[1]

    classes = snapshot.features["label"]["classes"]
    weighted = make_objective("tagging", TRAIN.model_copy(update={"class_weights": "balanced"}), snapshot)
    every = np.asarray(snapshot.arrays("train")["label"])
    counts = np.bincount(every[every >= 0], minlength=len(classes))
    np.testing.assert_allclose(weighted.class_weights, counts.sum() / (len(classes) * counts), rtol=1e-6)


SMALL = TRAIN.model_copy(
    update={"steps": 2, "optimizer": Sgd(), "order": "lengths", "checkpoint": CheckpointConfig(every=2)}
)


def state(root: Path) -> list[np.ndarray]:
    return [values for _, values in sorted(unpack((root / STATE).read_bytes())[2].items())]


@pytest.fixture(scope="module")
def whole(tagged: Tagged, tmp_path_factory: Any, workbench_at: Any) -> list[np.ndarray]:
    """The state after two steps, each of a whole batch on one device."""
    root = tmp_path_factory.mktemp("whole") / "model"
    fit(workbench_at(root), tagged.snapshot, MODEL, SMALL, seed=3)
    return state(root)


def test_micro_batches_sum_to_the_global_batch(
    tagged: Tagged, whole: list[np.ndarray], tmp_path: Path, workbench_at: Any
) -> None:
    config = SMALL.model_copy(update={"accumulate": 4})
    fit(workbench_at(tmp_path / "parts"), tagged.snapshot, MODEL, config, seed=3)
    for one, other in zip(whole, state(tmp_path / "parts"), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.mark.slow
def test_replicas_sum_to_the_global_batch(
    tagged: Tagged, whole: list[np.ndarray], tmp_path: Path, workbench_at: Any
) -> None:
    config = SMALL.model_copy(update={"strategy": Mirrored(devices=2)})
    with ProcessLauncher(tmp_path, 2).gang("train") as gang:
        gang.call(
            Work(fit, (tagged.snapshot, MODEL, config, 3)),
            workbench_at(tmp_path / "replicas").staging,
            tmp_path / "journal.jsonl",
            limits=Limits("resources.timeout", 120),
            on_report=lambda kind, *values: None,
        )
    for one, other in zip(whole, state(tmp_path / "replicas"), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


@pytest.fixture(scope="module")
def made(tagged: Tagged, tmp_path_factory: Any, workbench_at: Any, publish: Any) -> dict[str, Variant]:
    """The float forms of the tagger."""
    variants, root = {}, tmp_path_factory.mktemp("variants")
    for name in ("saved_model", "litert"):
        bench = workbench_at(root / name)
        common = (tagged.model, tagged.snapshot, tagged.records)
        outcome = compress(bench, VariantSpec(name), *common, tagged.report, None, None, CompressConfig(), EVALUATE)
        variants[name] = replace(publish(Variant, bench, outcome), name=name)
    return variants


@pytest.mark.slow
def test_exports_give_the_same_tags_in_a_fresh_process(
    tagged: Tagged, made: dict[str, Variant], tmp_path: Path, workbench_at: Any, publish: Any
) -> None:
    bench = workbench_at(tmp_path / "export")
    common = (tagged.model, tagged.snapshot, tagged.records)
    outcome = export(bench, *common, list(made.values()), ExportConfig())
    verified = outcome.statistics["verified"]
    assert sorted(verified) == ["litert", "saved_model"]
    assert all(each["argmax_agreement"] == 1 and each["max_abs_difference"] < 1e-3 for each in verified.values())
    exported = publish(Export, bench, outcome)
    golden = np.load(exported.path / "golden.npz")
    assert golden["shorter"].shape[1] == LENGTH // 2 < golden["outputs"].shape[1]
    assert np.abs(golden["shorter"] - golden["outputs"][:, : LENGTH // 2]).max() > 0.01, "a tagger looks ahead"

    scores = score(workbench_at(tmp_path / "score"), exported.path, tagged.records.path, "test", EVALUATE)
    for name in ("macro_f1", "entity_f1", "loss"):
        assert scores[name] == pytest.approx(tagged.report.metrics[f"test/{name}"], rel=1e-3)
    words = ["the", "dog", "near", "Nowhere", "Mr", "Nobody", "Lee", *["ran"] * 9]
    rows = [{"tokens": words}, {"tokens": []}, {"tokens": "Mr N"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    full, empty, bad = predict(exported.path, [str(tmp_path / "rows.jsonl")])
    assert full["tags"] == ["O", "O", "O", "B-LOC", "O", "B-PER", "I-PER", *["O"] * 5] and full["cut"] == 4
    assert full["entities"][1] == {"type": "PER", "words": ["Nobody", "Lee"], "start": 5, "stop": 7}
    assert empty["tags"] == [] and bad["error"]["rule"] == "must be a list of words"
    predict(exported.path, [str(tmp_path / "rows.jsonl")], tmp_path / "answers.csv")
    assert '""B-LOC""' in (tmp_path / "answers.csv").read_text()

    code = re.findall(r"^```python\n(.*?)^```", (exported.path / "README.md").read_text(), re.M | re.S)
    [ran] = pasted({exported.path: code[-1:]})
    assert len(said := ran.split()) == 2 and {*said} <= {"O", "B-PER", "I-PER", "B-LOC"}, "of: any words"

    other = [{"tokens": ["a"], "ner_tags": ["B-ORG"], "page": str(number)} for number in range(60)]
    other += [{"tokens": ["b", "c"], "ner_tags": ["O", "O"], "page": str(number)} for number in range(60, 90)]
    bench = workbench_at(tmp_path / "other")
    unknown = publish(Records, bench, conversion.build(bench, source_of(tmp_path / "raw", other), SPLITS))
    with pytest.raises(Failed, match="B-ORG; the export knows B-LOC, B-PER, I-PER, O"):
        score(workbench_at(tmp_path / "scored"), exported.path, unknown.path, "test", EVALUATE)


def test_a_damaged_variant_is_kept_out_by_a_gate_on_entities(
    tagged: Tagged,
    made: dict[str, Variant],
    tmp_path: Path,
    workbench_at: Any,
    publish: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tasks.compression.methods import quantise

    config = CompressConfig.model_validate(
        {"gates": [{"kind": "float", "metric": "entity_f1", "max_loss": 0.1}], "methods": ["int8_dynamic"]}
    )
    common = (tagged.model, tagged.snapshot, tagged.records)

    def judged(name: str) -> Any:
        bench = workbench_at(tmp_path / name)
        form = of("int8_dynamic")
        outcome = compress(bench, form, *common, tagged.report, made["litert"], made["litert"], config, EVALUATE)
        variant = replace(publish(Variant, bench, outcome), name="int8_dynamic")
        work = ([form], [variant], made["litert"], tagged.report, {}, "tagging", config, EVALUATE)
        return judge_variants(workbench_at(tmp_path / f"{name} judged"), *work)

    whole = judged("whole")
    assert whole["standing"] == {"int8_dynamic": "undecided"}
    assert "loses 0.0000 of 14 test groups" in str(whole["verdicts"]), "its sequences are of 14 pages"
    monkeypatch.setattr(
        quantise.Int8Dynamic,
        "write",
        lambda method, given: without_largest_weights(quantise.int8(given.litert.read_bytes())),
    )
    damaged = judged("damaged")
    assert damaged["standing"] == {"int8_dynamic": "rejected"}
    assert "beyond the limit 0.1" in str(damaged["verdicts"])


def test_rows_that_do_not_fit_are_refused_with_their_key(tmp_path: Path, workbench_at: Any) -> None:
    good = [{"tokens": ["a", "b"], "ner_tags": ["O", "B-A"], "page": str(number)} for number in range(40)]

    def failed(name: str, row: dict[str, Any], **more: Any) -> str:
        bench = workbench_at(tmp_path / name)
        with pytest.raises(Failed) as error:
            conversion.build(bench, source_of(tmp_path / f"{name} raw", [*good, row], **more), SPLITS)
        return str(error.value)

    one = {"tokens": ["a", "b"], "ner_tags": ["O", "O"], "page": "x"}
    said = failed("short", {**one, "ner_tags": ["O"]})
    assert "rows.jsonl line 41 (1 tags in ner_tags for 2 words in tokens)" in said
    assert "ner_tags: missing" in failed("none", {**one, "ner_tags": None})
    assert "tokens: word 1: missing" in failed("gap", {**one, "tokens": ["a", None]})
    assert "tokens: not a list of words" in failed("text", {**one, "tokens": "a b"})
    assert "tag 1: 'B-Z' is none of source.classes" in failed(
        "unknown", {**one, "ner_tags": ["O", "B-Z"]}, classes=["O", "B-A"]
    )


def test_tags_may_be_numbers_of_classes_and_parquet_and_tfds_read_them(
    tf: Any, tmp_path: Path, workbench_at: Any, publish: Any
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tensorflow_datasets as tfds

    random = np.random.default_rng(0)
    lists = [[f"1996-08-{word:02d}" for word in random.integers(1, 29, random.integers(1, 5))] for _ in range(60)]
    tags = [[int(word[-1]) % 3 for word in words] for words in lists]
    names = ["O", "B-DAY", "I-DAY"]
    pq.write_table(pa.table({"tokens": lists, "ner_tags": tags}), tmp_path / "days.parquet")
    (tmp_path / "days.jsonl").write_text(
        "".join(json.dumps({"tokens": a, "ner_tags": b}) + "\n" for a, b in zip(lists, tags, strict=True))
    )
    common = {"columns": {"tokens": "words", "ner_tags": "tags"}, "label": "ner_tags", "classes": names}
    contents = []
    for kind, source in (("jsonl", JsonlSource), ("parquet", ParquetSource)):
        bench = workbench_at(tmp_path / kind)
        config = source.model_validate({"path": str(tmp_path / f"days.{kind}"), **common})
        splits = RecordsConfig(splits={"train": 0.6, "validation": 0.2, "test": 0.2}, duplicates="keep")
        made = publish(Records, bench, conversion.build(bench, config, splits))
        rows = [row for split in ("train", "validation", "test") for row in RecordsReader(made.path).iterate(split)]
        contents.append(sorted([word.decode() for word in row["tokens"]] for row in rows))
        assert all(row["ner_tags"].tolist() == [int(word[-1:]) % 3 for word in row["tokens"]] for row in rows)
        [table] = RecordsReader(made.path).tables("train")
        assert table["ner_tags"].to_pylist() == [
            r["ner_tags"].tolist() for r in RecordsReader(made.path).iterate("train")
        ]
    assert contents[0] == contents[1] == sorted(lists), "dates are words, as they are written"
    builder = tfds.builder_from_directory(made.path)
    assert builder.info.features["ner_tags"].feature.names == names
    [first, *_] = tfds.as_numpy(builder.as_dataset("train"))
    assert [word.decode() for word in first["tokens"]] in lists and len(first["ner_tags"]) == len(first["tokens"])


OWN = """
import keras

def of_words(features, outputs):
    tokens = keras.Input((None,), dtype="int32", name="column_tokens")
    x = keras.layers.Embedding(features["column_tokens"]["vocabulary"], 8)(tokens)
    x = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(x)
    return keras.Model(tokens, keras.layers.Dense(outputs)(x))

def of_rows(features, outputs):
    tokens = keras.Input((None,), dtype="int32", name="column_tokens")
    x = keras.layers.Embedding(features["column_tokens"]["vocabulary"], 8)(tokens)
    return keras.Model(tokens, keras.layers.Dense(outputs)(keras.layers.GlobalAveragePooling1D()(x)))
"""


def test_a_model_of_ones_own_has_outputs_for_each_word(tagged: Tagged, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(OWN)
    features = open_snapshot(tagged.snapshot.path).features
    own = ImportedModel(task="tagging", target="nets:of_words", folder=str(tmp_path))
    assert own.build(features, seed=0).output.shape == (None, None, 4)
    with pytest.raises(Failed, match=r"outputs \[None, 4\]; the task tagging needs \[None, None, 4\]: 4 classes"):
        own.model_copy(update={"target": "nets:of_rows"}).build(features, seed=0)


def test_a_teacher_teaches_real_words_alone(tagged: Tagged) -> None:
    import keras

    student = MODEL.build(open_snapshot(tagged.snapshot.path).features, seed=7)
    given = {"student": MODEL, "hidden": {"final_norm": "final_norm"}, "fine_tune": {"steps": 1}}
    method = Distill.model_validate(given)
    added = keras.Model(student.inputs, method.added_loss(student, tagged.model.path))
    words = np.array([[3, 5, 2, 4]], np.int32)
    expected = added.predict(words, verbose=0)
    assert expected > 0.01
    np.testing.assert_allclose(added.predict(np.pad(words, ((0, 0), (0, 9))), verbose=0), expected, rtol=1e-4)


def test_classes_that_are_no_entities_have_metrics_of_tokens_alone(tmp_path: Path) -> None:
    features = {"w": {"dtype": "uint16", "shape": [3], "vocabulary": 4, "padding": 0}}
    features["label"] = {"dtype": "int32", "shape": [3], "classes": ["NOUN", "VERB"]}  # type: ignore[assignment]
    labels = np.array([[0, 1, -1], [1, 0, 0]], np.int32)
    split = RawSplit("test", features, {"w": np.ones((2, 3), np.uint16), "label": labels}, tmp_path)
    judge = make_judge("tagging", split, EvaluateConfig())
    assert sorted(judge.metrics) == ["loss", "macro_f1", "token_accuracy"]
    kept = judge.keep(np.eye(2, dtype=np.float32)[np.maximum(labels, 0)] * 9, 0)
    assert "there are no entities" in judge.details(judge.predictions(kept))["without_entities"]
    with pytest.raises(Failed, match=r"evaluate.metrics: entity_f1; the classes are not O, B-"):
        make_judge("tagging", split, EvaluateConfig(metrics=("entity_f1",)))
    own = {"token_accuracy": np.ones((9, 2))}
    with pytest.raises(Failed, match="metric entity_f1; the test examples have token_accuracy"):
        FloatGate(metric="entity_f1", max_loss=0.1).find(
            Subject("tagging", ("macro_f1", True), own, own, "the float model")
        )


def test_what_does_not_fit_the_task_is_refused(tmp_path: Path) -> None:
    for name, value in (("calibrate", "temperature"), ("threshold", {"maximize": "f1"}), ("positive", "O")):
        given = {name: value, **({"groups": "page"} if name == "positive" else {})}
        with pytest.raises(Conflict, match=f"evaluate.{name}"):
            EvaluateConfig.model_validate(given).fit("tagging")
    columns = {"tokens": "words", "ner_tags": "tags"}
    with pytest.raises(ValidationError, match="is of type tags, which is a label"):
        JsonlSource.model_validate({"path": "x", "columns": columns})
    with pytest.raises(ValidationError, match="has a class for each word"):
        JsonlSource.model_validate({"path": "x", "columns": {"a": "text", "t": "tags"}, "label": "t"})
    with pytest.raises(ValidationError, match="are lists, which JSON lines"):
        CsvSource.model_validate({"path": "x", "columns": columns, "label": "ner_tags"})
    source = JsonlSource.model_validate({"path": "x", "columns": columns, "label": "ner_tags"})
    features = {name: each.as_json() for name, each in features_of(source).items()}
    check_task(features, "tagging", None)
    with pytest.raises(Refused, match=r"classification; learns one class of an example.*use model.task tagging"):
        check_task(features, "classification", None)
    with pytest.raises(Refused, match=r"tagging; learns one class of each word.*use model.task classification"):
        check_task({"a": {}, "label": {"shape": [], "classes": ["x", "y"]}}, "tagging", None)
