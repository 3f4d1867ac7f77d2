"""Variants of a model trained on digits: size, quality and verdicts."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Report, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.judgement import JUDGEMENT
from tasks.compression.specs import FLOAT, VariantSpec, compressed
from tasks.compression.variants import build
from tasks.compression.verdicts import judge
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.measured import LEVEL
from tasks.evaluation.report import build as evaluate
from tasks.evaluation.report import read_slices
from tasks.exporting import EVIDENCE
from tasks.exporting.latency import BATCHES, THREADS, Energy, measure
from tasks.feed import open_snapshot
from tasks.models import ModelConfig
from tasks.runner.compressing import kept

CONFIG = CompressConfig()
INT8 = compressed(CONFIG.chains[0])
EVALUATE = EvaluateConfig(resamples=300, bins=7)


@pytest.fixture(scope="module")
def report(digits, workbench_at, publish, tmp_path_factory):
    bench = workbench_at(tmp_path_factory.mktemp("judged") / "report")
    return publish(Report, bench, evaluate(bench, digits.model, digits.snapshot, digits.records, EVALUATE))


@pytest.fixture(scope="module")
def variants(digits, report, workbench_at, publish, tmp_path_factory):
    """The chain that the stage makes."""
    root = tmp_path_factory.mktemp("variants")

    def make(form, parent):
        bench = workbench_at(root / form.name)
        reference = parent if form.methods else None
        given = (digits.model, digits.snapshot, digits.records, report, parent, reference, CONFIG, EVALUATE)
        return replace(publish(Variant, bench, build(bench, form, *given)), name=form.name)

    saved_model = make(VariantSpec("saved_model"), None)
    litert = make(FLOAT, saved_model)
    int8 = make(INT8, litert)
    return saved_model, litert, int8


def test_float_variants_answer_as_keras_does_and_hold_each_weight_once(variants, digits):
    weights = sum(weight.nbytes for weight in _weights(digits))
    for variant in variants[:2]:
        description = json.loads((variant.path / "variant.json").read_bytes())
        assert description["against_float"]["max_abs_difference"] < 1e-4
        assert description["against_float"]["loss"] == 0
        data = max(row["bytes"] for row in variant.manifest["files"])
        assert weights <= data < 1.1 * weights


def test_int8_is_smaller_and_as_good(variants):
    _, litert, int8 = variants
    assert int8.metrics["int8_dynamic/size_ratio"] < 0.35
    assert int8.metrics["int8_dynamic/test/accuracy"] > litert.metrics["litert/test/accuracy"] - 0.02
    # With n examples and no disagreement the bound is that of the rule of three, never 0.
    n = int8.manifest["counts"]["test"]
    assert int8.metrics["int8_dynamic/test/accuracy_loss/high"] >= min(1 / n, 1 - (1 - LEVEL) ** (1 / n))


@pytest.fixture(scope="module")
def judged(variants, report, workbench_at, tmp_path_factory):
    """`judged(config, variants)`: the judgement of the float and the int8 file, or of others."""

    def judge_them(config=CONFIG, others=None, latency=None):
        bench = workbench_at(tmp_path_factory.mktemp("judged") / "bench")
        saved_model, litert, int8 = others or variants
        forms = [VariantSpec("saved_model"), FLOAT, INT8]
        given = (report, latency or {}, "classification", config, EVALUATE)
        return judge(bench, forms, [saved_model, litert, int8], litert, *given)

    return judge_them


def test_a_gate_keeps_a_variant_out_says_why_and_fails_nothing(variants, judged, caplog):
    saved_model, litert, int8 = variants
    refusing = CompressConfig(gates=({"kind": "float", "metric": "bytes", "max_ratio": 0.01},))
    assert kept(variants, JUDGEMENT.validate_python(judged(refusing))) == [saved_model, litert]
    assert "int8_dynamic is rejected" in caplog.text and "over the limit 0.01" in caplog.text
    assert kept(variants, JUDGEMENT.validate_python(judged())) == [saved_model, litert, int8]


def test_resamples_and_bins_are_those_of_evaluate(variants, report):
    """A float form answers as the model does, so that its figures are the report's, interval by interval."""
    own = json.loads((variants[0].path / "variant.json").read_bytes())["quality"]["metrics"]
    for name, measured in own.items():
        for end in ("value", "low", "high"):
            suffix = "" if end == "value" else f"/{end}"
            expected = report.metrics.get(f"test/{name}{suffix}")
            close = expected if expected is None else pytest.approx(expected, rel=1e-3)
            assert measured[end] == close, (name, end)


def test_a_variant_that_too_few_examples_prove_is_kept_marked_or_rejected_as_asked(variants, judged, caplog):
    """531 examples show a loss of at most 0.0056, and no less."""
    gate = {"kind": "float", "max_loss": 0.001}
    for undecided, rejected in (("keep_if_few", False), ("keep", False), ("reject", True)):
        judgement = judged(CompressConfig(gates=(gate,), undecided=undecided))
        [verdict] = judgement["verdicts"]["int8_dynamic"]
        assert verdict["verdict"] == "not enough data" and verdict["few"] and verdict["more"] > 2000
        accepted = [
            variant
            for variant in kept(variants, JUDGEMENT.validate_python(judgement))
            if variant.name == "int8_dynamic"
        ]
        assert (not accepted) is rejected
        assert all(variant.note == verdict["text"] for variant in accepted)
    assert "int8_dynamic is kept, but undecided: loses 0.0000 of 531 test" in caplog.text
    assert "int8_dynamic is rejected: loses 0.0000 of 531 test" in caplog.text


def test_quality_is_compared_with_keras_answers_in_the_report(digits, report, variants, judged, benches, publish):
    """Against a reference that answers otherwise it must lose: compared with itself it would lose nothing."""
    litert = variants[1]
    wrong = replace(report, path=shutil.copytree(report.path, benches("wrong").staging.root / "report"))
    np.save(wrong.path / "predictions" / "test.npy", np.eye(10, dtype="float32")[labels_of(digits)] * 9)
    bench = benches("again")
    given = (digits.model, digits.snapshot, digits.records, wrong, litert, litert, CONFIG, EVALUATE)
    outcome = build(bench, INT8, *given)
    description = json.loads((bench.staging.root / "variant.json").read_bytes())
    accuracy = description["quality"]["metrics"]["accuracy"]["value"]
    assert accuracy < 1 and description["against_float"]["loss"] == pytest.approx(1 - accuracy)
    assert description["against_float"]["agreement"] == pytest.approx(accuracy)
    assert outcome.statistics["metrics"]["int8_dynamic/test/accuracy_loss"] == pytest.approx(1 - accuracy)
    published = replace(publish(Variant, bench, outcome), name="int8_dynamic")
    [_, quality] = judged(others=(*variants[:2], published))["verdicts"]["int8_dynamic"]
    assert quality["gate"] == "quality" and (quality["verdict"] == "pass") is (quality["value"] <= 0.02)


def test_parity_sees_outputs_that_differ(digits, report, variants, judged, benches, publish):
    """Of a form made from other weights; the gate compares with the model at hand."""
    from tasks.models.keras_file import load, save

    network = load(digits.model.path)
    plan = json.loads((digits.model.path / "architecture.json").read_bytes())
    network.weights[-1].assign(network.weights[-1] + 0.5)
    other = benches("other")
    config = TypeAdapter(ModelConfig).validate_python(plan["model"])
    save(network, other.staging, config, plan["features"], plan["seed"])
    model = replace(digits.model, path=other.staging.root)
    bench = benches("litert")
    (other.staging.root / "manifest.json").write_text(json.dumps(digits.model.manifest))
    given = (model, digits.snapshot, digits.records, report, variants[0], None, CONFIG, EVALUATE)
    published = replace(publish(Variant, bench, build(bench, FLOAT, *given)), name="litert")
    description = json.loads((published.path / "variant.json").read_bytes())
    assert description["against_float"]["max_abs_difference"] == pytest.approx(0.5, abs=1e-3)
    judgement = judged(others=(variants[0], published, variants[2]))
    [parity] = judgement["verdicts"]["litert"]
    assert parity["gate"] == "parity" and parity["verdict"] == "fail" and judgement["standing"]["litert"] == "rejected"


def test_a_file_that_equals_keras_on_the_test_split_alone_is_refused_and_so_is_what_is_made_like_it(
    digits, report, variants, judged, benches, publish, monkeypatch, tmp_path
):
    """The first pixel of every digit is black; a converter that leaves it out is not seen by any of them."""
    import keras

    from tasks.exporting.formats.litert import LiteRT
    from tasks.exporting.formats.saved_model import SavedModel

    write = LiteRT.write

    def without_the_first_pixel(network, preprocess, parent, target, functions=()):
        others = np.arange(64).reshape(8, 8, 1).clip(max=1).astype("float32")
        image = keras.Input((8, 8, 1), dtype="uint8", name="image")
        changed = keras.Model(image, network(keras.ops.cast(keras.ops.cast(image, "float32") * others, "uint8")))
        SavedModel.write(changed, None, None, tmp_path / "saved_model")
        write(changed, None, tmp_path / "saved_model", target)

    monkeypatch.setattr(LiteRT, "write", staticmethod(without_the_first_pixel))
    assert not np.asarray(open_snapshot(digits.snapshot.path).arrays("test")["image"])[:, 0, 0].any()
    bench = benches("litert")
    given = (digits.model, digits.snapshot, digits.records, report, variants[0], None, CONFIG, EVALUATE)
    made = replace(publish(Variant, bench, build(bench, FLOAT, *given)), name="litert")
    against = json.loads((made.path / "variant.json").read_bytes())["against_float"]
    assert against["max_abs_difference"] < 1e-4 and against["drawn"]["max_abs_difference"] > 0.1
    judgement = judged(others=(variants[0], made, variants[2]))
    assert judgement["standing"] == {"saved_model": "accepted", "litert": "rejected", "int8_dynamic": "rejected"}
    [parity] = judgement["verdicts"]["litert"]
    assert parity["text"].startswith("outputs for drawn inputs differ from Keras' by at most ")
    refused = judgement["verdicts"]["int8_dynamic"][0]["text"]
    assert refused.startswith("made like the float LiteRT file, whose outputs for drawn inputs differ from Keras' by ")


def labels_of(digits):
    return np.asarray(open_snapshot(digits.snapshot.path).arrays("test")["label"])


def test_latency_and_memory_are_measured_in_turns_and_judged_only_when_asked(variants, judged, digits, benches):
    saved_model, litert, int8 = variants
    measured = measure(benches("latency"), [saved_model, litert, int8], digits.snapshot)
    settings = measured["settings"]
    assert [(row["threads"], row["batch"]) for row in settings] == [(t, size) for t in THREADS for size in BATCHES]
    for row in settings:
        assert row["variants"].keys() == {"litert", "int8_dynamic", *(["saved_model"] if row["threads"] == 1 else [])}
        assert row["variants"]["litert"]["ratio"] == 1
        assert row["again"] > 0 and row["again"] != 1, "the same variant, measured a second time"
        for figures in row["variants"].values():
            assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"] and figures["calls"] >= 5
    assert measured["shared_threads"] == {"saved_model": 2}
    weights = sum(weight.nbytes for weight in _weights(digits))
    assert 0 < measured["peak_bytes"]["int8_dynamic"] < measured["peak_bytes"]["litert"] < 20 * weights
    exact = {**measured, "settings": [{**row, "conclusive": True} for row in settings]}
    slowest = max(row["variants"]["int8_dynamic"]["ratio"] for row in settings if row["threads"] == 1)
    for limit, standing in ((slowest * 1.01, "accepted"), (slowest * 0.99, "rejected")):
        config = CompressConfig(gates=({"kind": "float", "metric": "latency", "max_ratio": limit},))
        assert judged(config, latency=exact)["standing"]["int8_dynamic"] == standing


def test_energy_is_the_difference_of_all_packages_also_where_a_counter_begins_again(tmp_path):
    for number, count in enumerate((990, 5)):
        zone = tmp_path / f"intel-rapl:{number}"
        zone.mkdir()
        (zone / "energy_uj").write_text(f"{count}\n")
        (zone / "max_energy_range_uj").write_text("999\n")
    part = tmp_path / "intel-rapl:0:0"
    part.mkdir()
    (part / "energy_uj").write_text("1\n")
    energy = Energy(tmp_path)
    before = energy.read()
    assert energy and before == [990, 5]
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("10\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("7\n")
    assert energy.joules(before, energy.read()) == pytest.approx(22e-6)
    assert not Energy(tmp_path / "none") and Energy(tmp_path / "none").joules([], []) == 0


def test_what_gates_read_is_by_example(variants, report, digits):
    """Contributions of the file and of the float model, and the examples of each slice."""
    int8 = variants[2]
    with np.load(int8.path / EVIDENCE) as arrays:
        own, of_float = arrays["own/accuracy"][:, 0], arrays["float/accuracy"][:, 0]
    assert own.mean() == pytest.approx(int8.metrics["int8_dynamic/test/accuracy"])
    assert of_float.mean() == pytest.approx(report.metrics["test/accuracy"])
    rows, masks = read_slices(report, "test")
    for number, row in enumerate(rows):
        mask = masks[row["slice"]]
        assert (mask == (labels_of(digits) == number)).all() and row["examples"] == mask.sum()
        assert row["value"] == pytest.approx(of_float[mask].mean())


def _weights(digits):
    from tasks.models.keras_file import load

    return [np.asarray(weight.value) for weight in load(digits.model.path).weights]
