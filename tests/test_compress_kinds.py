"""A method of compression is one class: another one is one file, and no line elsewhere."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tasks.compression.config import names, settings_needed
from tasks.compression.methods.method import FileMethod, Method, ModelMethod
from tests.support.digits import Digits
from tests.support.documents import added
from tests.support.homes import ROOT

TOYS = added("tasks/compression/methods/toys.py")

SCRIPT = """
import json, pickle, sys
from dataclasses import replace
from pathlib import Path
from pydantic import ValidationError
from tasks.artifacts import Model, Report, Variant
from tasks.compression.config import CompressConfig
from tasks.compression.search import space
from tasks.config.compose import Config
from tasks.config.refusals import explain
from tasks.config.reference import page

def refusal(methods):
    try:
        Config.model_validate({"name": "a", "train": {"steps": 1}, "compress": {"methods": methods}})
    except ValidationError as error:
        return explain(error, Config).rule

config = CompressConfig.model_validate({"methods": [["shrink", "copied"], {"kind": "shrink", "factor": 0.25}]})
tried = space("classification", config, "accuracy")
found = {
    "schema": sorted({"Shrink", "Copied"} & Config.model_json_schema()["$defs"].keys()),
    "page": [line for line in page().splitlines() if "shrink)" in line or "What is left of a weight" in line],
    "refusals": [refusal(["no"]), refusal([{"kind": "no"}]), refusal([["copied", "prune"]])],
    "names": [chain.name for chain in config.chains],
    "versions": [config.chains[0].versions, config.chains[0].libraries],
    "tried": [*tried.model, *tried.file],
    "heavy": sorted({"tensorflow", "keras"} & sys.modules.keys()),
}

import numpy as np
from tasks.compression import changed
from tasks.compression.specs import compressed
from tasks.compression.keras_layers import kernels
from tasks.compression.variants import build
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.report import build as evaluate
from tasks.models.keras_file import load
from tests.support.benches import published, workbench

root = Path(sys.argv[1])
digits = pickle.loads((root / "digits").read_bytes())
data = (digits.snapshot, digits.records)
model = replace(digits.model, planned={**digits.model.manifest, "steps": 8})
chain, settings = config.chains[0], EvaluateConfig(resamples=100)
report = published(Report, bench := workbench(root / "report"), evaluate(bench, model, *data, settings))
smaller = published(Model, bench := workbench(root / "model"), changed.build(bench, chain[0], model))
outcome = build(workbench(root / "variant"), compressed(chain), smaller, *data, report, None, None, config, settings)
pairs = zip(kernels(load(model.path)), kernels(load(smaller.path)))
found["halved"] = all(np.allclose(np.asarray(own) / 2, np.asarray(new)) for own, new in pairs)
found["methods"] = [method["kind"] for method in outcome.statistics["methods"]]
found["files"] = sorted(path.name for path in (root / "variant").rglob("*.tflite"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, digits: Digits) -> dict[str, Any]:
    """What a copy of the code with one more file says and does."""
    root = tmp_path_factory.mktemp("toys")
    for top in ("flows", "tasks", "tests"):
        shutil.copytree(ROOT / top, root / top, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tasks/compression/methods/toys.py").write_text(TOYS)
    (root / "digits").write_bytes(pickle.dumps(digits))
    script = [sys.executable, "-c", SCRIPT, str(root)]
    environment = {"PYTHONPATH": str(root), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(script, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_new_file_is_in_the_schema_and_on_the_reference_page(found: dict[str, Any]) -> None:
    assert found["schema"] == ["Copied", "Shrink"]
    title, row = found["page"]
    assert title == "## compress.methods.NUMBER (shrink)"
    assert row.startswith("| `compress.methods.NUMBER.factor` | number (> 0, < 1) | `0.5` |")
    assert found["heavy"] == [], "a config is read where nothing is computed"


def test_it_is_one_of_the_choices_that_refusals_name(found: dict[str, Any]) -> None:
    name, kind, chain = found["refusals"]
    assert "'copied'" in name and "'shrink'" in name
    assert "'copied'" in kind and "'shrink'" in kind and kind.startswith("must be one of 'float16'")
    assert chain == "copied changes the finished file, and prune would come after it"


def test_its_version_and_libraries_decide_digests_and_a_search_tries_it(found: dict[str, Any]) -> None:
    assert found["names"] == ["shrink_50-copied", "shrink_25"]
    assert found["versions"] == [{"shrink": 7, "copied": 3}, ["pillow"]]
    assert {"shrink_90", "copied"} <= set(found["tried"])


def test_it_changes_a_model_and_writes_a_file(found: dict[str, Any]) -> None:
    assert found["halved"] is True and found["methods"] == ["shrink", "copied"] and found["files"]


def test_methods_are_listed_as_they_always_were_whichever_file_was_imported_first() -> None:
    assert names() == [
        *("float16", "int8_dynamic", "int8_weight_only", "int4_dynamic", "int4_weight_only"),
        *("int8_static", "int8_selective", "gptq"),
        *("prune", "cluster", "qat", "distill", "low_rank", "prune_structured"),
    ]
    code = "import tasks.compression.methods.qat\nfrom tasks.compression.config import names\nprint(*names())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == names()


@pytest.mark.parametrize("kind", Method.kinds().values(), ids=lambda kind: kind.__name__)
def test_a_method_says_what_it_does(kind: type[Method]) -> None:
    assert kind.__doc__ and kind.version >= 1
    assert issubclass(kind, FileMethod) == kind.on_file == ("write" in dir(kind))
    if issubclass(kind, ModelMethod):
        own = {name for each in kind.__mro__ if each is not ModelMethod for name in vars(each)}
        assert "change" in own or "prepare" in own
        assert ("prepare" in own) == (kind.model_fields.keys() >= {"fine_tune"}), "what trains prepares"


def test_settings_that_a_name_alone_does_not_have_are_known() -> None:
    assert settings_needed("int8_dynamic") == [] and settings_needed("qat") == ["fine_tune"]
    assert settings_needed("distill") == ["fine_tune", "student"]


def test_a_method_without_its_behaviour_cannot_be_named() -> None:
    class Idle(FileMethod):
        """Does nothing."""

    with pytest.raises(TypeError, match="abstract"):
        Idle(kind="idle")  # type: ignore[abstract]
