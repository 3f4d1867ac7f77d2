"""Each method of compression makes another file, smaller and as good; what it is told to do it does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import ValidationError

from tasks.artifacts import Model, Report, Variant
from tasks.compression.changed import build as changed_build
from tasks.compression.config import CompressConfig, chain_of
from tasks.compression.inputs import MethodInputs
from tasks.compression.judgement import JUDGEMENT
from tasks.compression.keras_layers import kernels
from tasks.compression.litert import Layer, layers_of
from tasks.compression.methods import quantise
from tasks.compression.methods.prune import Cluster, Prune
from tasks.compression.methods.quantise import Gptq, Int4Dynamic, Int8Selective
from tasks.compression.specs import FLOAT, VariantSpec
from tasks.compression.variants import build
from tasks.compression.verdicts import judge
from tasks.errors import Failed
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import build as export
from tasks.exporting.formats.litert import LiteRT
from tasks.models.keras_file import load
from tasks.runner.compressing import kept
from tests.support.damage import without_largest_weights
from tests.support.digits import Digits
from tests.support.forms import of
from tests.support.homes import ROOT

CONFIG, EVALUATE = CompressConfig(), EvaluateConfig(resamples=100)
QUARTER, EIGHTH, HALF = (0.2, 0.32), (0.1, 0.22), (0.45, 0.55)
METHODS: dict[str, tuple[Any, tuple[float, float], float]] = {
    "float16": ("float16", HALF, 0.02),
    "int8_dynamic": ("int8_dynamic", QUARTER, 0.25),
    "int8_weight_only": ("int8_weight_only", QUARTER, 0.25),
    "int8_static": ("int8_static", QUARTER, 0.25),
    "int8_selective": ("int8_selective", QUARTER, 0.25),
    "int4_dynamic": ("int4_dynamic", EIGHTH, 0.4),
    "int4_dynamic_32": ({"kind": "int4_dynamic", "block": 32}, EIGHTH, 0.4),
    "int4_weight_only": ("int4_weight_only", EIGHTH, 0.4),
    "gptq": ("gptq", EIGHTH, 0.4),
}
"""The entry of `compress.methods`, the share of the float file's bytes that is expected, and that of the largest output
by which outputs differ at most."""


@pytest.fixture(scope="module")
def report(
    digits: Digits, workbench_at: Callable, publish: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Report:
    """That of the model before all methods."""
    bench = workbench_at(tmp_path_factory.mktemp("report") / "report")
    made: Report = publish(Report, bench, evaluate(bench, digits.model, digits.snapshot, digits.records, EVALUATE))
    return made


@pytest.fixture(scope="module")
def make(
    digits: Digits, report: Report, workbench_at: Callable, publish: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Variant]:
    """Makes the variant of an entry of `compress.methods`, once for each name; float forms by their format."""
    root = tmp_path_factory.mktemp("methods")
    common = (digits.model, digits.snapshot, digits.records)
    made: dict[str, Variant] = {}

    def one(form: VariantSpec, config: CompressConfig = CONFIG) -> Variant:
        if form.name not in made:
            parent = None if form.parent is None else one(form.parent)
            reference = one(FLOAT) if form.methods else None
            bench = workbench_at(root / form.name)
            outcome = build(bench, form, *common, report, parent, reference, config, EVALUATE)
            made[form.name] = replace(publish(Variant, bench, outcome), name=form.name)
        return made[form.name]

    return one


@pytest.mark.parametrize("name", METHODS)
def test_a_method_makes_a_smaller_file_that_answers_nearly_the_same(make: Callable[..., Variant], name: str) -> None:
    entry, (low, high), most = METHODS[name]
    variant, whole = make(of(entry)), make(FLOAT)
    described = json.loads((variant.path / "variant.json").read_bytes())
    assert described["name"] == name
    assert described["methods"][0]["kind"] == (entry if isinstance(entry, str) else entry["kind"])
    assert low < variant.metrics[f"{name}/size_ratio"] < high
    against = described["against_float"]
    assert 0 < against["max_abs_difference"] < most * against["largest"]
    assert described["tolerance"] == 2 * against["max_abs_difference"]
    assert described["against_float"]["agreement"] > 0.95
    ends = [LiteRT(each.path / "model.tflite", 1).interface for each in (variant, whole)]
    assert ends[0]["inputs"] == ends[1]["inputs"]
    assert {name: dtype for name, (_, dtype) in ends[0]["outputs"].items()} == {"logits": "float32"}


def test_methods_with_other_settings_are_other_files(make: Callable[..., Variant]) -> None:
    """Of the same kind of numbers: what is observed or chosen makes the difference."""
    files = [(make(of(METHODS[name][0])).path / "model.tflite").read_bytes() for name in METHODS]
    assert len(set(files)) == len(files) - 1, "of the digits no layer needs to stay float, so that two are the same"


def test_gptq_rounds_by_what_it_observes(tmp_path: Path) -> None:
    """A dense layer answers nearer to the float one than by the nearest values, on inputs like those observed.

    The method promises that of each layer; what several of them answer in the end may be nearer by chance.
    """
    random = np.random.default_rng(0)
    inputs = (random.normal(size=(512, 4)) @ random.normal(size=(4, 32))).astype(np.float32)  # which depend on another
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((32,), name="x"), keras.layers.Dense(16, name="logits")])
    model.export(tmp_path / "saved", verbose=False)
    (tmp_path / "float.tflite").write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved")).convert())
    given: Any = SimpleNamespace(litert=tmp_path / "float.tflite", examples=lambda split, most: [{"x": inputs[:256]}])

    def error(content: bytes) -> float:
        path = tmp_path / "quantised.tflite"
        path.write_bytes(content)
        answers = [LiteRT(each, 1)({"x": inputs[256:]}) for each in (path, given.litert)]
        return float(np.square(answers[0] - answers[1]).mean())

    assert error(Gptq(kind="gptq").write(given)) < 0.7 * error(Int4Dynamic(kind="int4_dynamic").write(given))


def test_a_damaged_file_is_kept_out(
    make: Callable[..., Variant],
    report: Report,
    digits: Digits,
    workbench_at: Callable,
    publish: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a method that loses the weights of a layer: small, and wrong."""
    whole = make(FLOAT)

    def write(method: Any, given: MethodInputs) -> bytes:
        return without_largest_weights(quantise.int8(given.litert.read_bytes()))

    monkeypatch.setattr(quantise.Int8Dynamic, "write", write)
    common = (digits.model, digits.snapshot, digits.records)
    bench = workbench_at(tmp_path / "damaged")
    outcome = build(bench, of("int8_dynamic"), *common, report, whole, whole, CONFIG, EVALUATE)
    damaged = replace(publish(Variant, bench, outcome), name="int8_dynamic")
    bench = workbench_at(tmp_path / "judged")
    judgement = judge(bench, [of("int8_dynamic")], [damaged], whole, report, {}, "classification", CONFIG, EVALUATE)
    assert kept([damaged], JUDGEMENT.validate_python(judgement)) == []
    assert "int8_dynamic is rejected: loses at least " in caplog.text


def test_layers_stay_float_until_the_loss_is_within_the_limit(
    make: Callable[..., Variant], digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit that int8 keeps none does; the most sensitive ones do where it does not."""
    whole = make(FLOAT)
    paths = {"litert": whole.path / "model.tflite"}
    given = MethodInputs(
        paths.__getitem__, "classification", "cross_entropy", digits.snapshot, digits.records, EVALUATE, None
    )
    content = paths["litert"].read_bytes()
    layers = layers_of(content)
    assert [layer.said for layer in layers][-2:] == ["dense", "logits"] and len(layers) == 6
    some = quantise.int8_but(content, layers[:2])
    assert len(quantise.int8_but(content, [])) < len(some) < len(content)
    assert quantise.int8_but(content, layers) != some

    tried: list[str] = []

    def lost(self: MethodInputs, split: str, call: Any) -> float:
        tried.append(split)
        return 0.5 if len(tried) < 2 else 0.0

    monkeypatch.setattr(MethodInputs, "lost", lost)
    kept = Int8Selective().write(given)
    assert tried == ["validation"] * 3 and len(quantise.int8_but(content, [])) < len(kept) < len(content)
    assert quantise.fewest(6, lambda count: count >= 4) == 4
    assert quantise.fewest(6, lambda count: False) == 6


def test_a_layer_is_selected_alone_where_the_name_of_another_begins_with_its_own() -> None:
    """The library compares names that end with a semicolon."""
    one, other = (Layer(name, "FULLY_CONNECTED", name, (2, 2)) for name in ("net/dense/MatMul", "net/dense/MatMul_1"))
    scopes = [f"{layer.name};" for layer in (one, other)]
    assert [bool(re.search(one.selector, scope)) for scope in scopes] == [True, False]
    assert [bool(re.search(other.selector, scope)) for scope in scopes] == [False, True]


def test_entries_are_names_settings_and_lists() -> None:
    config = CompressConfig.model_validate({"methods": ["float16", {"kind": "int4_dynamic", "block": 64}, ["gptq"]]})
    assert [chain.name for chain in config.chains] == ["float16", "int4_dynamic_64", "gptq"]
    assert chain_of("float16") == config.chains[0]


MODELS: dict[str, tuple[Any, float]] = {
    "prune_30": ({"kind": "prune", "share": 0.3}, 0.85),
    "prune_2of4": ({"kind": "prune", "pattern": "2:4"}, 0.75),
    "cluster_16": ("cluster", 0.3),
}
"""The entry of `compress.methods`, and the largest share of the float file's gzip bytes that is expected."""


@pytest.fixture(scope="module")
def changed(
    digits: Digits, workbench_at: Callable, publish: Callable, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Any, str], Model]:
    """Makes the model of an entry of `compress.methods` that changes it, once for each name."""
    root, made = tmp_path_factory.mktemp("changed"), dict[str, Model]()

    def one(entry: Any, name: str) -> Model:
        if name not in made:
            [method] = of(entry).methods
            bench = workbench_at(root / name)
            manifest = {"counts": {"parameters": 1, "steps": 7}, "steps": 7}
            before = replace(digits.model, planned=manifest)
            made[name] = publish(Model, bench, changed_build(bench, method, before))
        return made[name]

    return one


@pytest.fixture(scope="module")
def float_of(
    make: Callable[..., Variant],
    changed: Callable[[Any, str], Model],
    report: Report,
    digits: Digits,
    workbench_at: Callable,
    publish: Callable,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Any, str], Variant]:
    """Makes the float LiteRT file of the model of an entry that changes it, once for each name."""
    root, made = tmp_path_factory.mktemp("float"), dict[str, Variant]()

    def one(entry: Any, name: str) -> Variant:
        if name not in made:
            bench, given = workbench_at(root / name), (digits.snapshot, digits.records, report, None, make(FLOAT))
            outcome = build(bench, of(entry), changed(entry, name), *given, CONFIG, EVALUATE)
            made[name] = replace(publish(Variant, bench, outcome), name=name)
        return made[name]

    return one


@pytest.mark.parametrize("name", MODELS)
def test_a_changed_model_is_smaller_after_gzip_and_as_good(
    make: Callable[..., Variant],
    changed: Callable[[Any, str], Model],
    float_of: Callable[[Any, str], Variant],
    report: Report,
    digits: Digits,
    workbench_at: Callable,
    publish: Callable,
    tmp_path: Path,
    name: str,
) -> None:
    entry, most = MODELS[name]
    model, whole, variant = changed(entry, name), make(FLOAT), float_of(entry, name)
    common = (digits.snapshot, digits.records)
    assert variant.metrics[f"{name}/gzip_ratio"] < most < 0.95 < variant.metrics[f"{name}/size_ratio"]
    described = json.loads((variant.path / "variant.json").read_bytes())
    bench = workbench_at(tmp_path / "judged")
    judgement = judge(bench, [of(entry)], [variant], whole, report, {}, "classification", CONFIG, EVALUATE)
    assert [gate["gate"] for gate in judgement["verdicts"][name]] == ["parity", "size", "gzip size", "quality"]
    assert 0.8 < described["against_float"]["agreement"] < 1
    assert described["tolerance"] == CONFIG.max_difference * described["against_float"]["largest"], (
        "from the changed model, with which an export compares"
    )
    assert described["against_float"]["max_abs_difference"] < 1e-3, "from the changed model, not the one before"
    chain = of([entry, "int8_dynamic"])
    bench = workbench_at(tmp_path / "int8")
    both = publish(Variant, bench, build(bench, chain, model, *common, report, variant, whole, CONFIG, EVALUATE))
    assert chain.name == f"{name}-int8_dynamic" and chain.parent == of(entry)
    gzip = [each.manifest["statistics"]["gzip_bytes"] for each in (both, make(of("int8_dynamic")))]
    assert gzip[0] < 0.9 * gzip[1], "what the model's method saves is saved in the int8 file, too"


@pytest.mark.slow
def test_an_export_compares_a_variant_with_its_own_model_and_keeps_out_what_was_damaged(
    make: Callable[..., Variant],
    changed: Callable[[Any, str], Model],
    float_of: Callable[[Any, str], Variant],
    digits: Digits,
    workbench_at: Callable,
    publish: Callable,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of each method that does not train the largest weights of its file are lost after it was judged; another file
    answers as the model before its method. A fresh process answers something else."""
    entry, name = {"kind": "cluster", "clusters": 4}, "cluster_4"
    model, variant, common = changed(entry, name), float_of(entry, name), (digits.snapshot, digits.records)
    models = {each: changed(entry, each) for each, (entry, _) in MODELS.items()} | {name: model, "other": model}
    bench = workbench_at(tmp_path / "export")

    def with_file(variant: Variant, name: str, content: bytes) -> Variant:
        path = shutil.copytree(variant.path, tmp_path / name)
        described = {**json.loads((path / "variant.json").read_bytes()), "name": name}
        (path / "variant.json").write_text(json.dumps(described))
        (path / "model.tflite").write_bytes(content)
        return replace(variant, path=path, name=name)

    whole = [make(of(entry)) for entry, *_ in METHODS.values()]
    whole += [float_of(entry, each) for each, (entry, _) in MODELS.items()]
    damaged = [
        with_file(each, each.name, without_largest_weights((each.path / "model.tflite").read_bytes())) for each in whole
    ]
    other = with_file(variant, "other", (make(FLOAT).path / "model.tflite").read_bytes())
    given = [make(VariantSpec("saved_model")), variant, other, *damaged]
    export(bench, digits.model, *common, given, ExportConfig(golden=8), None, models)
    root = bench.staging.root
    with np.load(root / "golden.npz") as golden:
        outputs, own = golden["outputs"], golden[f"outputs/{name}"]
    differ = np.abs(outputs - own).max() > 10 * CONFIG.max_difference * np.abs(outputs).max()
    assert differ, "otherwise this proves nothing"
    assert f'golden["outputs/{name}"]' in (root / "README.md").read_text()
    assert (root / name / "model.tflite").exists()
    assert [each for each in (*METHODS, *MODELS, "other") if (root / each / "model.tflite").exists()] == []
    for each in (*METHODS, *MODELS, "other"):
        assert f"variant {each} is not exported: outputs differ from Keras' by at most " in caplog.text


def test_weights_are_what_the_method_says(changed: Any, digits: Digits) -> None:
    before, after = (
        {each.path: np.asarray(each) for each in kernels(load(model.path))}
        for model in (digits.model, changed({"kind": "prune", "share": 0.25, "scope": "layer"}, "layers"))
    )
    for path, kernel in after.items():
        assert (kernel == 0).sum() == int(0.25 * kernel.size)
        assert np.abs(before[path][kernel == 0]).max() <= np.abs(kernel[kernel != 0]).min()
    whole = changed({"kind": "prune", "share": 0.25}, "whole").manifest["counts"]
    assert whole["zeros"] == int(0.25 * sum(kernel.size for kernel in after.values()))
    fours = {each.path: np.asarray(each) for each in kernels(load(changed(MODELS["prune_2of4"][0], "fours").path))}
    for path, kernel in fours.items():
        if kernel.shape[-2] % 4 == 0:
            groups = np.moveaxis(kernel, -2, -1).reshape(-1, 4)
            assert ((groups == 0).sum(axis=-1) == 2).all(), path
        else:
            assert np.array_equal(kernel, before[path])
    few = kernels(load(changed({"kind": "cluster", "clusters": 5}, "few").path))
    assert all(np.unique(np.asarray(kernel)).size <= 5 for kernel in few)
    pruned = load(changed({"kind": "prune", "share": 0.3}, "prune_30").path)
    zeros = [np.asarray(kernel) == 0 for kernel in kernels(pruned)]
    Cluster(clusters=5).change(pruned)
    for kernel, before in zip(kernels(pruned), zeros, strict=True):
        assert np.array_equal(np.asarray(kernel) == 0, before) and before.any()
        assert np.unique(np.asarray(kernel)).size <= 5


def test_what_cannot_be_applied_is_refused() -> None:
    for entry, says in (
        (["int8_dynamic", "prune"], "int8_dynamic changes the finished file, and prune would come after it"),
        ({"kind": "prune", "pattern": "2:4", "share": 0.7}, "share .*is ignored by pattern 2:4"),
    ):
        with pytest.raises(ValidationError, match=says):
            CompressConfig.model_validate({"methods": [entry]})
    with pytest.raises(ValidationError, match="make 2 variants called prune_50"):
        CompressConfig.model_validate({"methods": ["prune", {"kind": "prune", "scope": "layer"}]})
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    with pytest.raises(Failed, match="prune 2:4: .*kernel.*6, 3.*where its inputs divide by 4"):
        Prune(pattern="2:4").change(model)


def test_methods_are_asked_for_their_versions_without_a_framework() -> None:
    """The flow's process computes digests, and does not import TensorFlow or SciPy."""
    code = (
        "HEAVY = {'tensorflow', 'keras', 'sklearn', 'jax', 'scipy', 'polars', 'pandas'}\n"
        "import sys; from tasks.compression.config import CompressConfig\n"
        "from tasks.compression.config import names\n"
        "needed = {'qat': {'fine_tune': {'steps': 1}}}\n"
        "needed['prune_structured'] = needed['qat']\n"
        "needed['low_rank'] = {'rank': 1, **needed['qat']}\n"
        "needed['distill'] = {'student': {'kind': 'mlp'}, **needed['qat']}\n"
        "methods = [{'kind': kind, **needed.get(kind, {})} for kind in names()]\n"
        "assert all(chain.versions for chain in CompressConfig(methods=methods).chains)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & HEAVY))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_blocks_that_no_layer_divides_into_are_refused(make: Callable[..., Variant]) -> None:
    content = (make(FLOAT).path / "model.tflite").read_bytes()
    assert [layer.said for layer in quantise.divisible(content, 64)] == ["dense", "logits"]
    assert [layer.said for layer in quantise.divisible(content, 256)] == ["dense"], "logits have 128 inputs"
    says = r"int4_dynamic, block 1000; .*divide by 1000, and there are: dense \d+, logits 128; use a smaller block"
    with pytest.raises(Failed, match=says):
        quantise.divisible(content, 1000)
