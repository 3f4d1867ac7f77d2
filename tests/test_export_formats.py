"""The float formats of an export: each answers as Keras does in a fresh process, and repeats byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks import exporting
from tasks.artifacts import Export, Model, Report, Variant
from tasks.compression import variants as variants_of
from tasks.compression.config import CompressConfig
from tasks.compression.specs import VariantSpec
from tasks.errors import Failed, Refused
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.exporting import FORMATS, check_installed, with_parents
from tasks.exporting.config import ExportConfig
from tasks.exporting.export import GOLDEN, build, fault_of, golden_arrays, golden_inputs
from tasks.exporting.formats.openvino import OpenVino
from tasks.exporting.fresh_process import fresh_process
from tasks.models.architectures.convnet import ConvnetModel
from tasks.models.forward import predict
from tasks.models.keras_file import load, save
from tasks.store.files import write_arrays

pytestmark = pytest.mark.slow  # of 50 s, half are imports of six runtimes in fresh processes

CONFIG, EVALUATE = CompressConfig(), EvaluateConfig(resamples=100)

AGAIN = """
import shutil, sys
from pathlib import Path
from tasks.exporting import FORMATS
from tasks.models.keras_file import load
model, root, paths = load(Path(sys.argv[1])), Path(sys.argv[2]), {}
for name in (*FORMATS, "onnx", "openvino"):  # some libraries count in the process
    form = FORMATS[name]
    shutil.rmtree(root / name, ignore_errors=True)
    (root / name).mkdir(parents=True)
    paths[name] = root / name / form.file
    form.write(model, None, paths.get(form.parent), paths[name])
"""
"""Writes every format once more, in a process that hashes texts differently."""


@pytest.fixture(scope="module")
def small(digits: Any, workbench_at: Any, publish: Any, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A small model of the digits with weights that no training made; its files are written once per format."""
    root = tmp_path_factory.mktemp("small")
    features = digits.snapshot.manifest["features"]
    config = ConvnetModel(filters=(4,), dense=8, dropout=0.0)
    network = config.build(features, seed=1)
    bench = workbench_at(root / "model")
    also = save(network, bench.staging, config, features, 1)
    (bench.staging.root / "manifest.json").write_text(json.dumps({"files": bench.staging.rows(), "statistics": also}))
    return Model("0" * 64, bench.staging.root, "model")


@pytest.fixture(scope="module")
def made(
    small: Model, digits: Any, workbench_at: Any, publish: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Variant]:
    """The float variant in each format."""
    root = tmp_path_factory.mktemp("formats")
    bench = workbench_at(root / "report")
    report = publish(Report, bench, evaluate(bench, small, digits.snapshot, digits.records, EVALUATE))
    found: dict[str, Variant] = {}
    for name in FORMATS:
        bench = workbench_at(root / name)
        parent = found.get(FORMATS[name].parent or "")
        given = (small, digits.snapshot, digits.records, report, parent, None, CONFIG, EVALUATE)
        found[name] = replace(publish(Variant, bench, variants_of.build(bench, VariantSpec(name), *given)), name=name)
    return found


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    return {}


@pytest.fixture(scope="module")
def export(
    small: Model,
    made: dict[str, Variant],
    measured: dict[str, Any],
    digits: Any,
    workbench_at: Any,
    publish: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Export:
    """An export of all of them, of which OpenVINO's has other weights: two of its bytes are exchanged."""
    variants = dict(made)
    broken = shutil.copytree(made["openvino"].path, tmp_path_factory.mktemp("broken") / "openvino")
    weights = broken / "openvino/model.bin"
    weights.write_bytes(weights.read_bytes()[::-1])
    variants["openvino"] = replace(made["openvino"], path=broken)
    bench = replace(
        workbench_at(tmp_path_factory.mktemp("export") / "export"), measure=lambda name, value: measured.update(value)
    )
    given = (small, digits.snapshot, digits.records, list(variants.values())[::-1], ExportConfig(golden=8))
    return publish(Export, bench, build(bench, *given))


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_answers_as_keras_does(made: dict[str, Variant], name: str) -> None:
    description = json.loads((made[name].path / "variant.json").read_bytes())
    assert description["against_float"]["max_abs_difference"] < 1e-5
    assert description["against_float"]["largest"] > 0.1, "outputs of zero would be equal in any format"


def test_every_format_repeats_byte_for_byte_in_another_process(
    made: dict[str, Variant], small: Model, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", AGAIN, str(small.path), str(tmp_path)]
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, variant in made.items():
        if name == "saved_model":  # here the signatures of raw columns are not written
            continue
        files = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        assert files
        for path in files:
            written = variant.path / path.relative_to(tmp_path / name)
            assert written.read_bytes() == path.read_bytes(), path.name


def test_the_keras_file_is_that_of_the_model(made: dict[str, Variant], small: Model) -> None:
    assert (made["keras"].path / "model.keras").read_bytes() == (small.path / "model.keras").read_bytes()


def test_a_fresh_process_verifies_each_and_keeps_out_what_fails(
    export: Export, made: dict[str, Variant], measured: dict[str, Any], small: Model
) -> None:
    verified = export.manifest["statistics"]["verified"]
    assert verified.keys() == FORMATS.keys() - {"openvino"}
    assert {path.name for path in export.path.iterdir()} >= verified.keys()
    assert not [row for row in export.manifest["files"] if "openvino" in row["path"]]
    assert "openvino" not in (export.path / "README.md").read_text()
    for figures in verified.values():
        (name, (shape, dtype)), (output, (outputs, kind)) = *figures["inputs"].items(), *figures["outputs"].items()
        assert (name, shape[1:], dtype, output, outputs[1:], kind) == (
            *("image", [8, 8, 1], "uint8"),
            *("logits", [10], "float32"),
        )
        assert figures["max_abs_difference"] < 1e-5
    for name in ("keras", "safetensors"):
        assert verified[name]["weights_sha256"] == small.manifest["statistics"]["weights_sha256"]
    assert measured.keys() == verified.keys()
    for figures in measured.values():
        assert 0 < figures["p50_seconds"] <= figures["p99_seconds"] and figures["peak_bytes"] > 1 << 20
    assert "seconds" not in (export.path / "manifest.json").read_text(), "no time is in the artifact"


def test_readme_of_every_format_works_when_pasted(export: Export) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (export.path / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == len(FORMATS) - 1 + 1, "each but OpenVINO's, and that for raw rows"
    code = "".join(blocks[:-1])
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=export.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 8 * len(blocks[:-1])


def test_weights_that_are_not_the_models_are_found(
    made: dict[str, Variant], digits: Any, small: Model, tmp_path: Path
) -> None:
    """In a fresh process for each format, with the golden outputs of another model."""
    network, inputs = load(small.path), golden_inputs(digits.snapshot, 4)
    network.get_layer("logits").bias.assign_add(np.eye(10, dtype="float32")[3])
    golden = {**golden_arrays(digits.snapshot, digits.records, inputs), "outputs": predict(network, inputs)}
    write_arrays(tmp_path / GOLDEN, golden)
    with ExitStack() as processes:
        for name, variant in made.items():
            shutil.copytree(variant.path, tmp_path / name)
        verify = [processes.enter_context(fresh_process(tmp_path / name, FORMATS[name], tmp_path)) for name in made]
        found = {name: verify_variant() for name, verify_variant in zip(made, verify, strict=True)}
    assert found.keys() == FORMATS.keys()
    for name, each in found.items():
        says = "outputs differ from Keras' by at most 1.00e+00, over the tolerance 1.00e-04"
        assert fault_of(each, 1e-4, small.manifest["statistics"]["weights_sha256"]) == says, name


def test_a_format_whose_package_is_missing_is_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_parents("safetensors") == ["keras", "safetensors"]
    check_installed(FORMATS)

    def version(package: str) -> str:
        if package == "openvino":
            raise PackageNotFoundError(package)
        return "1"

    monkeypatch.setattr(exporting, "version", version)
    check_installed([name for name in FORMATS if name != "openvino"])
    with pytest.raises(Refused) as refused:
        check_installed(["saved_model", "openvino"])
    assert refused.value.as_json() == {
        "field": "export.formats",
        "saw": "openvino",
        "rule": "the format needs the package openvino, which is not installed",
        "remedy": "pip install 'millrace[openvino]', or leave openvino out",
    }


def test_a_model_that_cannot_be_converted_names_the_format(
    small: Model, digits: Any, bench: Any, made: dict[str, Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        raise RuntimeError("no counterpart of\n  an operation")

    monkeypatch.setattr(OpenVino, "write", staticmethod(write))
    given = (small, digits.snapshot, digits.records, None, made["saved_model"], None, CONFIG, EVALUATE)
    with pytest.raises(Failed, match="export.formats: openvino: no counterpart of an operation; .*leave openvino out"):
        variants_of.build(bench, VariantSpec("openvino"), *given)
