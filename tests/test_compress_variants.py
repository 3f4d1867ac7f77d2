"""Variants of a model fitted to real digits: small, as good, and judged."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tasks.artifacts import Variant
from tasks.compression import keep_accepted
from tasks.compression.variants import build
from tasks.config import CompressConfig, EvaluateConfig
from tasks.evaluation.intervals import LEVEL
from tasks.exporting.latency import BATCHES, SAME, measure

CONFIG = CompressConfig()


@pytest.fixture(scope="module")
def variants(digits, workbench_at, publish, tmp_path_factory):
    """The chain that the stage makes, and an int8 file under a gate that nothing passes."""
    root = tmp_path_factory.mktemp("variants")

    def make(folder, name, parent, config=CONFIG):
        bench = workbench_at(root / folder)
        outcome = build(
            bench, name, digits.model, digits.snapshot, digits.records, parent, config, EvaluateConfig(resamples=300)
        )
        return replace(publish(Variant, bench, outcome), name=name)

    saved_model = make("saved_model", "saved_model", None)
    litert = make("litert", "litert", saved_model)
    int8 = make("int8_dynamic", "int8_dynamic", litert)
    refused = make("refused", "int8_dynamic", litert, CompressConfig(max_size_ratio=0.01))
    return saved_model, litert, int8, refused


def test_float_variants_answer_as_keras_does_and_hold_each_weight_once(variants, digits):
    weights = sum(weight.nbytes for weight in _weights(digits))
    for variant in variants[:2]:
        found = json.loads((variant.path / "variant.json").read_bytes())
        assert found["accepted"]
        assert found["against_float"]["max_abs_difference"] < 1e-4
        assert found["against_float"]["loss"] == 0
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
    assert "int8_dynamic is kept out" in caplog.text and "over the limit 0.01" in caplog.text


def test_latency_is_measured_in_turns_and_judged_only_when_asked(variants, digits, benches):
    saved_model, litert, int8, _ = variants
    found = measure(benches("latency"), [saved_model, litert, int8], digits.snapshot)
    assert set(found["batches"]) == {str(size) for size in BATCHES}
    for batch in found["batches"].values():
        assert batch["ratios"]["litert"] == 1
        assert 0.3 < batch["ratios"][SAME] < 3
    slowest = max(batch["ratios"]["int8_dynamic"] for batch in found["batches"].values())
    for limit, kept in ((slowest * 1.01, True), (slowest * 0.99, False)):
        assert (int8 in keep_accepted([int8], CompressConfig(max_latency_ratio=limit), found)) is kept


def _weights(digits):
    from tasks.models.keras_file import load

    return [np.asarray(weight.value) for weight in load(digits.model.path).weights]
