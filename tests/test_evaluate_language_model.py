"""A language model evaluated, compressed and exported: bits per byte of real files."""

import gzip
import itertools
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot
from tasks.compression.litert import with_int8_tables
from tasks.config.compose import Config
from tasks.evaluation import bigrams, slices
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.decisions import Decision
from tasks.evaluation.estimates import PAIRED, SKEWED
from tasks.evaluation.judging import Probe, compare, run_model
from tasks.evaluation.report import build, read_kept
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.evaluation.tasks.language_model import METRICS, Predictions, nats
from tasks.exporting.predict import predict
from tasks.exporting.score import score
from tasks.feed import open_snapshot
from tasks.models.architectures.transformer import TransformerModel
from tasks.models.forward import inference_function
from tasks.models.keras_file import load, save
from tasks.records import conversion
from tasks.records.config import RecordsConfig
from tasks.records.reading import RecordsReader
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import TokensSnapshot
from tasks.sources.kinds.folders import TextFilesSource
from tasks.training.config import TrainConfig
from tasks.view.comparison import Comparison
from tasks.view.examples import _marked, passages
from tasks.view.facts import Facts
from tests.support.chain import chain
from tests.support.pages import Loads, page_of, run_of
from tests.support.pasted import pasted

CONFIG = TransformerModel(width=32, layers=1, heads=2, hidden=64)
LONG = "LENGTH(text) > 5000 and key LIKE '%.py'"
SPLITS = {"train": 0.5, "validation": 0.2, "test": 0.3}


@pytest.fixture(scope="module")
def text(tf, tmp_path_factory, workbench_at, publish):
    """The standard library's package email as records, snapshot and a model that knows which tokens are frequent."""
    root = tmp_path_factory.mktemp("text")
    bench = workbench_at(root / "records")
    source = TextFilesSource(path="stdlib:", glob="email/*.py")
    made = publish(Records, bench, conversion.build(bench, source, RecordsConfig(splits=SPLITS, duplicates="keep")))
    bench = workbench_at(root / "snapshot")
    snapshot = publish(Snapshot, bench, snapshots.build(bench, made, TokensSnapshot(vocabulary=400, block=32)))
    features = snapshot.manifest["features"]
    model = CONFIG.build(features, seed=1)
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(weight + random.normal(0, 0.05, weight.shape).astype("float32"))
    bench = workbench_at(root / "model")
    statistics = save(model, bench.staging, CONFIG, features, seed=1)
    return made, snapshot, publish(Model, bench, Outcome(counts={}, statistics=statistics))


@pytest.fixture(scope="module")
def report(text, workbench_at, publish, tmp_path_factory):
    made, snapshot, model = text
    bench = workbench_at(tmp_path_factory.mktemp("report") / "report")
    return publish(Report, bench, build(bench, model, snapshot, made, EvaluateConfig(resamples=100, sample_tokens=20)))


def test_every_byte_is_paid_for_once(text, report):
    made, snapshot, model = text
    reader = RecordsReader(made.path)
    contents = [bytes(example["text"][0]) for example in reader.iterate("test")]
    tokens = np.asarray(open_snapshot(snapshot.path).arrays("test")["tokens"])
    bos = snapshot.manifest["features"]["tokens"]["bos"]
    bits = 0.0
    call = inference_function(load(model.path))
    for row in tokens:
        logits = call({"tokens": row[None, :-1].astype("int32")})[0].astype(np.float64)
        chances = np.log2(np.exp(logits).sum(-1)) - logits[np.arange(len(logits)), row[1:]] / np.log(2)
        bits += chances[row[1:] != bos].sum()
    raw = b"".join(contents)
    assert report.metrics["test/bits_per_byte"] == pytest.approx(bits / len(raw), rel=1e-5)
    assert report.metrics["test/gzip_bits_per_byte"] == 8 * len(gzip.compress(raw, 9, mtime=0)) / len(raw)
    assert report.metrics["test/bigram_bits_per_byte"] == pytest.approx(bigram_bits(reader) / len(raw))
    assert report.metrics["test/bits_per_byte/low"] < report.metrics["test/bits_per_byte"]


def test_a_slice_by_a_condition_is_of_whole_files(text, report):
    made, snapshot, _ = text
    examples = list(RecordsReader(made.path).iterate("test"))
    long = np.array([len(bytes(example["text"][0]).decode()) > 5000 for example in examples])
    split, config = SnapshotSplit(snapshot.path, made.path, "test"), EvaluateConfig(resamples=100, slices=(LONG,))
    judge = make_judge("language_model", split, config)
    kept = read_kept(report, "test", judge)
    predictions = judge.predictions(kept)
    fields = slices.measured(judge, "language_model", split, kept, Decision(), config)
    [row] = [row for row in fields["slices"] if row["slice"] == LONG]
    bits, raw = METRICS["bits_per_byte"].contributions(predictions)[long].sum(axis=0)
    assert row["examples"] == long.sum() > 4 and row["value"] == pytest.approx(bits / raw)
    assert row["method"] == SKEWED


def bigram_bits(reader):
    """The bits of the test split by a bigram model with add-one smoothing that knows the train split."""
    counts = np.ones((256, 256))
    for example in reader.iterate("train"):
        text = b"\0" + bytes(example["text"][0])
        for before, byte in itertools.pairwise(text):
            counts[before, byte] += 1
    chances = counts / counts.sum(axis=1, keepdims=True)
    texts = [b"\0" + bytes(example["text"][0]) for example in reader.iterate("test")]
    return -sum(np.log2(chances[pair]) for text in texts for pair in itertools.pairwise(text))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_bigrams_are_counted_alike_in_chunks_of_any_size(chunk):
    texts = [(b"", b"abracadabra" * 3), (b"given", b""), (b"given c", b"cc"), (b"", b"x")]
    expected = np.zeros((256, 256), int)
    for text in (b"\0" + b"abracadabra" * 3, b"ccc", b"\0x"):
        for before, byte in itertools.pairwise(text):
            expected[before, byte] += 1
    np.testing.assert_array_equal(bigrams.count(texts, chunk), expected)


def test_report_names_the_hardest_files_shows_pictures_and_a_sample(report, text):
    report_json = json.loads((report.path / "report.json").read_bytes())
    assert report_json["primary"] == {"metric": "bits_per_byte", "higher_is_better": False}
    test = report_json["splits"]["test"]
    assert test["examples"] == text[0].manifest["counts"]["test"]
    worst = [row["bits_per_byte"] for row in test["worst"]]
    assert worst == sorted(worst, reverse=True) and test["best"][0]["bits_per_byte"] < worst[-1]
    assert all(row["key"].startswith("email/") for row in test["worst"])
    assert report_json["sample"]["text"]
    assert {row["slice"]: row["why"] for row in test["slices"]}["folder email"] == "the whole split"
    assert sum(row["examples"] for row in test["slices"] if row["slice"].endswith(" bytes")) == test["examples"]
    for name in ("bits_by_size", "loss_by_position"):
        with Image.open(report.path / "pictures" / f"{name}.png") as image:
            assert min(image.size) > 300


def test_the_page_counts_files_and_rows_and_shows_what_it_writes(text, report, tmp_path):
    made, snapshot, _ = text
    source = TextFilesSource(path="stdlib:", glob="email/*.py")
    layout = TokensSnapshot(vocabulary=400, block=32)
    config = Config(name="lm", source=source, snapshot=layout, model=CONFIG, train=TrainConfig(steps=1))
    shown = Loads(page_of(tmp_path, config, convert=made, snapshot=snapshot, evaluate=report)).text
    counts, rows = made.manifest["counts"], snapshot.manifest["counts"]
    assert f"{counts['examples']} files:\n{counts['train']} train" in shown
    assert f"and {counts['test']} test files; of " in shown
    assert f"{sum(rows.values()):,} rows of 32 tokens, vocabulary 400" in shown
    assert f"test bits per byte {report.metrics['test/bits_per_byte']:.4f}" in shown
    assert "Passages with the highest loss" in shown
    assert "by slice" not in shown, "of six files no quarter says anything"
    for words in (
        "bigram bits per byte",
        "gzip bits per byte",
        "Files with the highest bits per byte",
        "Files with the lowest",
        "Sample",
        "email/",
    ):
        assert words in shown
    assert "examples" not in shown.split("Config")[0]


def test_the_passages_are_the_files_own_text_and_the_worst_of_it(text, report, tmp_path):
    made, snapshot, _ = text
    layout = TokensSnapshot(vocabulary=400, block=32)
    source = TextFilesSource(path="stdlib:", glob="email/*.py")
    config = Config(name="lm", source=source, snapshot=layout, model=CONFIG, train=TrainConfig(steps=1))
    run = run_of(tmp_path, config, [], convert=made, snapshot=snapshot, evaluate=report)
    reader = RecordsReader(made.path)
    contents = {bytes(row["key"][0]).decode(): bytes(row["text"][0]).decode() for row in reader.iterate("test")}
    rows_shown = passages(Facts(run))
    assert len(rows_shown) == 3
    for passage in rows_shown:
        assert "".join(text for text, _ in passage.tokens) in contents[passage.key]
        assert {shade for _, shade in passage.tokens} - {0}, "nothing surprises a model that knows nothing"


def test_two_language_models_are_held_against_each_other_file_by_file(text, report, tmp_path):
    made, snapshot, _ = text
    worse = Report(report.digest, shutil.copytree(report.path, tmp_path / "worse"), "report")
    saved = worse.path / "predictions" / "test.npy"
    np.save(saved, np.load(saved) * np.float32(1.1))
    manifest = json.loads((worse.path / "manifest.json").read_bytes())
    manifest["statistics"]["metrics"]["test/bits_per_byte"] *= 1.1
    (worse.path / "manifest.json").write_text(json.dumps(manifest))
    source, layout = TextFilesSource(path="stdlib:"), TokensSnapshot(vocabulary=400, block=32)
    config = Config(name="lm", source=source, snapshot=layout, model=CONFIG, train=TrainConfig(steps=1))
    reader = RecordsReader(made.path)
    listed = [(reader.key(split, row), "x") for split in reader.counts for row in range(reader.counts[split])]
    runs = [
        run_of(tmp_path / "home", config, listed, convert=made, snapshot=snapshot, evaluate=each)
        for each in (report, worse)
    ]
    comparison = Comparison(*runs)
    rows = {row.name: row for row in comparison.results}
    bits, count = rows["test/bits_per_byte"], reader.counts["test"]
    assert bits.more_than_noise and bits.by == f"{PAIRED} over {count} files, too few for 95 % and a permutation test"
    assert bits.interval[0] < bits.difference < bits.interval[1]
    assert bits.difference == pytest.approx(0.1 * bits.a)
    assert rows["test/token_accuracy"].by == "their intervals overlap: undecided", (
        "the report keeps no likeliest tokens"
    )
    assert rows["validation/bits_per_byte"].same
    assert comparison.verdict.startswith("b is worse than a by ")


def test_slices_are_folders_with_many_files_and_quarters_by_size(text):
    made, snapshot, _ = text
    judge = make_judge("language_model", SnapshotSplit(snapshot.path, made.path, "test"), EvaluateConfig())
    keys = [f"{'ab'[row % 2]}/{row}.py" for row in range(12)] + ["cut/all.py"]
    judge.documents = replace(judge.documents, keys=keys, contents=[b"x"] * 12 + [b""])
    sizes = np.arange(13.0) * 1000
    slices = judge.slices(Predictions(*[np.zeros(13)] * 3, bytes=sizes, by_position=np.zeros(1)))
    assert list(slices)[:2] == ["folder a", "folder b"] and slices["folder a"].sum() == 6
    assert list(slices)[2] == "0 to 3,000 bytes" and len(slices) == 6
    assert sum(group.sum() for name, group in slices.items() if name.endswith("bytes")) == 13

    sizes = np.array([1000.0, 5000, 5000, 5000])
    slices = judge.slices(Predictions(*[np.zeros(4)] * 3, bytes=sizes, by_position=np.zeros(1)))
    assert list(slices)[2:] == ["1,000 bytes", "5,000 bytes"]


def test_signs_of_several_tokens_are_shown_whole():
    class Bytes:
        def decode(self, tokens):
            return bytes(tokens)

    tokens, shades = np.array(list("aé€".encode() + b"\xff")), np.array([0, 1, 0, 2, 0, 3, 0])
    assert _marked(Bytes(), tokens, shades) == [("a", 0), ("é", 1), ("€", 3), ("\ufffd", 0)]


def test_nats_are_cross_entropies():
    random = np.random.default_rng(0)
    logits, targets = random.normal(0, 3, (5, 7, 11)).astype("float32"), random.integers(0, 11, (5, 7))
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(chances, targets[..., None], -1))[..., 0]
    np.testing.assert_allclose(nats(logits, targets), expected, atol=1e-5)


def test_a_worse_model_loses_bits_and_its_bound_is_above(text):
    made, snapshot, model = text
    judge = make_judge("language_model", SnapshotSplit(snapshot.path, made.path, "test"), EvaluateConfig())
    call = inference_function(load(model.path))
    own, worse = run_model(judge, call).kept, run_model(judge, lambda batch: call(batch) * 3).kept
    against = compare("language_model", judge, own, worse, EvaluateConfig())
    values = [METRICS["bits_per_byte"](judge.predictions(kept)) for kept in (own, worse)]
    assert against.loss == pytest.approx(values[1] - values[0])
    assert 0 < against.loss < against.upper
    assert against.agreement == 1
    assert compare("language_model", judge, own, own, EvaluateConfig()).upper == 0


def test_a_probe_sees_its_rows_alone(text):
    made, snapshot, model = text
    judge = make_judge("language_model", SnapshotSplit(snapshot.path, made.path, "test"), EvaluateConfig())
    call, seen = inference_function(load(model.path)), []

    def shifted(batch):
        seen.append(len(batch["tokens"]))
        return call(batch) - 0.25

    outputs = run_model(judge, call, probe=Probe(shifted, 3))
    assert seen == [3] and len(outputs.kept["nats"]) == len(judge.inputs) > 3
    assert outputs.max_abs_difference == pytest.approx(0.25, abs=1e-5)
    assert outputs.largest == pytest.approx(np.abs(call(judge.inputs[:3]) - 0.25).max())


def test_the_variants_read_keras_answers_from_the_report(text, report):
    made, snapshot, model = text
    judge = make_judge("language_model", SnapshotSplit(snapshot.path, made.path, "test"), EvaluateConfig())
    kept, again = read_kept(report, "test", judge), run_model(judge, inference_function(load(model.path))).kept
    assert kept.keys() == again.keys() == {"nats", "likeliest"}
    for name, values in again.items():
        assert kept[name].dtype == values.dtype
        np.testing.assert_array_equal(kept[name], values)


@pytest.fixture(scope="module")
def export(text, tmp_path_factory):
    made, snapshot, model = text
    root = tmp_path_factory.mktemp("chain")
    chain(root, model, snapshot, made)
    return root / "export"


@pytest.mark.slow
def test_export_answers_at_other_lengths_and_on_raw_files(export, text, tmp_path):
    verified = json.loads((export / "manifest.json").read_bytes())["statistics"]["verified"]
    assert verified["litert"]["inputs"] == {"tokens": [[-1, -1], "int32"]}
    assert verified["litert"]["max_abs_difference"] < 1e-4
    (tmp_path / "one.py").write_text("import os\n\n\ndef main():\n    return os\n")
    (tmp_path / "empty.py").write_text("")
    one, empty = predict(export, [str(tmp_path / "one.py"), str(tmp_path / "empty.py")])
    assert one["bytes"] == 38 and 1 < one["bits_per_byte"] < 12
    assert one["continuation"] and empty["bits_per_byte"] is None


@pytest.mark.slow
def test_int8_holds_its_embedding_once_as_int8_for_reading(export):
    whole = (export / "litert" / "model.tflite").read_bytes()
    table = 4 * 400 * 32  # still there as floats for writing, which the quantiser takes care of
    assert abs(len(with_int8_tables(whole)) - len(whole) - table / 4) < 2000


@pytest.mark.slow
def test_score_on_records_is_the_quality_on_their_snapshot(export, text, bench):
    scored = score(bench, export, text[0].path, "test", EvaluateConfig())
    quality = json.loads((export / "litert" / "variant.json").read_bytes())["quality"]["metrics"]
    assert scored["bits_per_byte"] == pytest.approx(quality["bits_per_byte"]["value"], rel=1e-5)
    assert scored["examples"] == text[0].manifest["counts"]["test"]


@pytest.mark.slow
def test_readme_works_when_pasted(export):
    blocks = re.findall(r"```python\n(.*?)```", (export / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 3
    assert all(pasted({export: blocks}))
