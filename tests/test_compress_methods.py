"""Each method of compression makes another file, smaller and as good; what it is told to do it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.artifacts import Report, Variant
from tasks.compression import int8_selective, keep_accepted
from tasks.compression.forms import FLOAT, Form, compressed
from tasks.compression.layers import layers_of
from tasks.compression.methods import Given, evenly
from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.variants import build
from tasks.config import CompressConfig, EvaluateConfig
from tasks.config.methods import Int8Selective, chain_of
from tasks.data import open_snapshot
from tasks.evaluation.report import build as evaluate
from tasks.exporting.litert import LiteRT
from tasks.models.features import input_arrays
from tests.conftest import Digits

CONFIG, EVALUATE = CompressConfig(), EvaluateConfig(resamples=100)
QUARTER, EIGHTH, HALF = (0.2, 0.32), (0.1, 0.22), (0.45, 0.55)
METHODS: dict[str, tuple[Any, tuple[float, float]]] = {
    "float16": ("float16", HALF),
    "int8_dynamic": ("int8_dynamic", QUARTER),
    "int8_weight_only": ("int8_weight_only", QUARTER),
    "int8_static": ("int8_static", QUARTER),
    "int8_selective": ("int8_selective", QUARTER),
    "int4_dynamic": ("int4_dynamic", EIGHTH),
    "int4_dynamic_32": ({"kind": "int4_dynamic", "block": 32}, EIGHTH),
    "int4_weight_only": ("int4_weight_only", EIGHTH),
    "gptq": ("gptq", EIGHTH),
}
"""The entry of `compress.methods`, and the share of the float file's bytes that is expected."""


@pytest.fixture(scope="module")
def make(
    digits: Digits, workbench_at: Callable, publish: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Variant]:
    """Makes the variant of an entry of `compress.methods`, once for each name; float forms by their format."""
    root = tmp_path_factory.mktemp("methods")
    bench = workbench_at(root / "report")
    common = (digits.model, digits.snapshot, digits.records)
    report = publish(Report, bench, evaluate(bench, *common, EVALUATE))
    made: dict[str, Variant] = {}

    def one(form: Form, config: CompressConfig = CONFIG) -> Variant:
        if form.name not in made:
            parent = None if form.parent is None else one(form.parent)
            reference = one(FLOAT) if form.methods else None
            bench = workbench_at(root / form.name)
            outcome = build(bench, form, *common, report, parent, reference, config, EVALUATE)
            made[form.name] = replace(publish(Variant, bench, outcome), name=form.name)
        return made[form.name]

    return one


def of(entry: Any) -> Form:
    [chain] = CompressConfig.model_validate({"methods": [entry]}).chains
    return compressed(chain)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_makes_a_smaller_file_that_answers_nearly_the_same(make: Callable[..., Variant], name: str) -> None:
    entry, (low, high) = METHODS[name]
    variant, whole = make(of(entry)), make(FLOAT)
    described = json.loads((variant.path / "variant.json").read_bytes())
    assert described["name"] == name and described["accepted"]
    assert described["methods"][0]["kind"] == entry if isinstance(entry, str) else entry["kind"]
    assert low < variant.metrics[f"{name}/size_ratio"] < high
    difference = described["against_float"]["max_abs_difference"]
    assert 0 < difference < described["tolerance"] * described["against_float"]["largest"]
    assert described["against_float"]["agreement"] > 0.95
    ends = [LiteRT(each.path / "model.tflite", 1).interface for each in (variant, whole)]
    assert ends[0]["inputs"] == ends[1]["inputs"]
    assert {name: dtype for name, (_, dtype) in ends[0]["outputs"].items()} == {"logits": "float32"}


def test_methods_with_other_settings_are_other_files(make: Callable[..., Variant]) -> None:
    """Of the same kind of numbers: what is observed or chosen makes the difference."""
    files = [(make(of(METHODS[name][0])).path / "model.tflite").read_bytes() for name in METHODS]
    assert len(set(files)) == len(files) - 1, "of the digits no layer needs to stay float, so that two are the same"


def test_gptq_rounds_by_what_it_observes(make: Callable[..., Variant], digits: Digits) -> None:
    """Its outputs are nearer to the float ones than those of the nearest values, on the examples observed."""
    rows = input_arrays(digits.snapshot.manifest["features"], open_snapshot(digits.snapshot.path).arrays("train"))
    batch = rows[evenly(len(rows), 256)]
    expected = LiteRT(make(FLOAT).path / "model.tflite", 1)(batch)
    errors = {
        name: float(np.square(LiteRT(make(of(name)).path / "model.tflite", 1)(batch) - expected).mean())
        for name in ("gptq", "int4_dynamic")
    }
    assert errors["gptq"] < errors["int4_dynamic"]


def test_a_damaged_file_is_kept_out(
    make: Callable[..., Variant],
    digits: Digits,
    workbench_at: Callable,
    publish: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a method that leaves two bits of each weight: small, and wrong."""
    from tasks.compression import int8_dynamic

    whole = make(FLOAT)

    def write(config: Any, given: Given) -> bytes:
        return quantised(given.litert.read_bytes(), lambda work: work.add_dynamic_config(*EVERY, num_bits=2))

    monkeypatch.setattr(int8_dynamic, "write", write)
    bench = workbench_at(tmp_path / "report")
    common = (digits.model, digits.snapshot, digits.records)
    report = publish(Report, bench, evaluate(bench, *common, EVALUATE))
    bench = workbench_at(tmp_path / "damaged")
    outcome = build(bench, of("int8_dynamic"), *common, report, whole, whole, CONFIG, EVALUATE)
    damaged = replace(publish(Variant, bench, outcome), name="int8_dynamic")
    assert keep_accepted([damaged], CONFIG, {}) == []
    assert "int8_dynamic is rejected: loses at most 0." in caplog.text


def test_layers_stay_float_until_the_loss_is_within_the_limit(
    make: Callable[..., Variant], digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit that int8 keeps none does; the most sensitive ones do where it does not."""
    whole = make(FLOAT)
    paths = {"litert": whole.path / "model.tflite"}
    given = Given(paths.__getitem__, "classification", "cross_entropy", digits.snapshot, digits.records, EVALUATE, None)
    content = paths["litert"].read_bytes()
    layers = layers_of(content)
    assert [layer.said for layer in layers][-2:] == ["dense", "logits"] and len(layers) == 6
    some = int8_selective.int8(content, layers[:2])
    assert len(int8_selective.int8(content, [])) < len(some) < len(content)
    assert int8_selective.int8(content, layers) != some

    tried: list[str] = []

    def lost(self: Given, split: str, call: Any) -> float:
        tried.append(split)
        return 0.5 if len(tried) < 2 else 0.0

    monkeypatch.setattr(Given, "lost", lost)
    kept = int8_selective.write(Int8Selective(), given)
    assert tried == ["validation"] * 3 and len(int8_selective.int8(content, [])) < len(kept) < len(content)
    assert int8_selective.fewest(6, lambda count: count >= 4) == 4
    assert int8_selective.fewest(6, lambda count: False) == 6


def test_entries_are_names_settings_and_lists() -> None:
    config = CompressConfig.model_validate({"methods": ["float16", {"kind": "int4_dynamic", "block": 64}, ["gptq"]]})
    assert [chain.name for chain in config.chains] == ["float16", "int4_dynamic_64", "gptq"]
    assert chain_of("float16") == config.chains[0]
