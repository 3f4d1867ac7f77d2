"""Variants of a model trained on digits: size, quality and verdicts."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from tasks.artifacts import Report, Variant
from tasks.compression import keep_accepted
from tasks.compression.forms import FLOAT, Form, compressed
from tasks.compression.variants import build
from tasks.config import CompressConfig, EvaluateConfig, ModelConfig
from tasks.data import open_snapshot
from tasks.evaluation.intervals import LEVEL
from tasks.evaluation.report import build as evaluate
from tasks.evaluation.report import read_slices
from tasks.exporting import EVIDENCE
from tasks.exporting.energy import Energy
from tasks.exporting.latency import BATCHES, THREADS, measure

CONFIG = CompressConfig()
INT8 = compressed(CONFIG.chains[0])
EVALUATE = EvaluateConfig(resamples=300, bins=7)


@pytest.fixture(scope="module")
def report(digits, workbench_at, publish, tmp_path_factory):
    bench = workbench_at(tmp_path_factory.mktemp("judged") / "report")
    return publish(Report, bench, evaluate(bench, digits.model, digits.snapshot, digits.records, EVALUATE))


@pytest.fixture(scope="module")
def variants(digits, report, workbench_at, publish, tmp_path_factory):
    """The chain that the stage makes, and an int8 file under a gate that nothing passes."""
    root = tmp_path_factory.mktemp("variants")

    def make(folder, form, parent, config=CONFIG):
        bench = workbench_at(root / folder)
        reference = parent if form.methods else None
        given = (digits.model, digits.snapshot, digits.records, report, parent, reference, config, EVALUATE)
        return replace(publish(Variant, bench, build(bench, form, *given)), name=form.name)

    saved_model = make("saved_model", Form("saved_model"), None)
    litert = make("litert", FLOAT, saved_model)
    int8 = make("int8_dynamic", INT8, litert)
    refused = make("refused", INT8, litert, CompressConfig(max_size_ratio=0.01))
    return saved_model, litert, int8, refused


def test_float_variants_answer_as_keras_does_and_hold_each_weight_once(variants, digits):
    weights = sum(weight.nbytes for weight in _weights(digits))
    for variant in variants[:2]:
        description = json.loads((variant.path / "variant.json").read_bytes())
        assert description["accepted"]
        assert description["against_float"]["max_abs_difference"] < 1e-4
        assert description["against_float"]["loss"] == 0
        data = max(row["bytes"] for row in variant.manifest["files"])
        assert weights <= data < 1.1 * weights


def test_int8_is_smaller_and_as_good(variants):
    _, litert, int8, _ = variants
    assert json.loads((int8.path / "variant.json").read_bytes())["accepted"]
    assert int8.metrics["int8_dynamic/size_ratio"] < 0.35
    assert int8.metrics["int8_dynamic/test/accuracy"] > litert.metrics["litert/test/accuracy"] - 0.02
    # With n examples and no disagreement the bound is that of the rule of three, never 0.
    n = int8.manifest["counts"]["test"]
    assert int8.metrics["int8_dynamic/test/accuracy_loss/high"] >= min(1 / n, 1 - (1 - LEVEL) ** (1 / n))


def test_a_gate_keeps_a_variant_out_says_why_and_fails_nothing(variants, caplog):
    saved_model, litert, _, refused = variants
    assert keep_accepted([saved_model, litert, refused], CONFIG, {}) == [saved_model, litert]
    assert "int8_dynamic is rejected" in caplog.text and "over the limit 0.01" in caplog.text


def test_resamples_and_bins_are_those_of_evaluate(variants, report):
    """A float form answers as the model does, so that its figures are the report's, interval by interval."""
    own = json.loads((variants[0].path / "variant.json").read_bytes())["quality"]["metrics"]
    for name, measured in own.items():
        for end in ("value", "low", "high"):
            suffix = "" if end == "value" else f"/{end}"
            expected = report.metrics.get(f"test/{name}{suffix}")
            close = expected if expected is None else pytest.approx(expected, rel=1e-3)
            assert measured[end] == close, (name, end)


def test_a_variant_that_too_few_examples_prove_is_kept_marked_or_rejected_as_asked(variants, caplog):
    int8 = variants[2]
    undecided = {"gate": "quality", "verdict": "not enough data", "passed": False, "text": "too few test examples"}
    manifest = {"statistics": {**int8.manifest["statistics"], "gates": [undecided]}}
    undecided_variant = replace(int8)
    undecided_variant.__dict__["manifest"] = manifest
    assert keep_accepted([undecided_variant], CONFIG, {}) == [undecided_variant]
    assert "int8_dynamic is kept, but undecided: too few test examples" in caplog.text
    assert keep_accepted([undecided_variant], CompressConfig(undecided="reject"), {}) == []


def test_the_quality_gate_compares_int8_with_keras_answers_in_the_report(digits, report, variants, benches):
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


def test_parity_sees_outputs_that_differ(digits, report, variants, benches):
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
    build(bench, FLOAT, model, digits.snapshot, digits.records, report, variants[0], None, CONFIG, EVALUATE)
    description = json.loads((bench.staging.root / "variant.json").read_bytes())
    assert description["against_float"]["max_abs_difference"] == pytest.approx(0.5, abs=1e-3)
    assert (
        description["gates"][0]["gate"] == "parity"
        and description["gates"][0]["verdict"] == "fail"
        and not description["accepted"]
    )


def labels_of(digits):
    return np.asarray(open_snapshot(digits.snapshot.path).arrays("test")["label"])


def test_latency_and_memory_are_measured_in_turns_and_judged_only_when_asked(variants, digits, benches):
    saved_model, litert, int8, _ = variants
    measured = measure(benches("latency"), [saved_model, litert, int8], digits.snapshot)
    settings = measured["settings"]
    assert [(row["threads"], row["batch"]) for row in settings] == [(t, size) for t in THREADS for size in BATCHES]
    for row in settings:
        assert row["variants"].keys() == {"litert", "int8_dynamic", *(["saved_model"] if row["threads"] == 1 else [])}
        assert row["variants"]["litert"]["ratio"] == 1
        assert 0.3 < row["again"] < 3
        for figures in row["variants"].values():
            assert 0 < figures["p50"] <= figures["p90"] <= figures["p99"] and figures["calls"] >= 5
    assert measured["shared_threads"] == {"saved_model": 2}
    weights = sum(weight.nbytes for weight in _weights(digits))
    assert 0 < measured["peak_bytes"]["int8_dynamic"] < measured["peak_bytes"]["litert"] < 20 * weights
    slowest = max(row["variants"]["int8_dynamic"]["ratio"] for row in settings)
    for limit, kept in ((slowest * 1.01, True), (slowest * 0.99, False)):
        assert (int8 in keep_accepted([int8], CompressConfig(max_latency_ratio=limit), measured)) is kept


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
