"""The bytes that every stage after the snapshot makes of given numbers. A change here changes artifacts: it must be
meant, be said in the changelog, and have a new code version of its stage.

Kinds of processors differ in the last bits of a trained weight and of an output. So the weights here are given (exact
in float32), logits are given to the evaluation, and of a training the ledger is compared. The bytes of records and
snapshots are in test_snapshot_repeats and test_snapshot_tokens.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
from tasks.compression.config import CompressConfig
from tasks.evaluation.config import EvaluateConfig
from tasks.exporting.config import ExportConfig
from tasks.models.architectures.convnet import ConvnetModel
from tasks.processes.gang import Limits, ProcessLauncher
from tasks.processes.workbench import Work, Workbench
from tasks.records.config import RecordsConfig
from tasks.snapshots.config import ImageSnapshot
from tasks.sources.kinds.catalogues import SklearnSource
from tasks.training.config import TrainConfig
from tests.support.benches import published, workbench

CONFIG = ConvnetModel(filters=(4,), dense=8, dropout=0.0)
FILES = {
    "model": ("architecture.json", "model.keras", "model.weights.h5"),
    "saved_model": ("saved_model/saved_model.pb", "saved_model/variables/variables.data-00000-of-00001"),
    "litert": ("model.tflite",),
    "int8_dynamic": ("model.tflite",),
    "export": ("README.md", "transform/transform.json"),
    "trained": ("state/ledger.jsonl",),
    "report": ("report.json", "predictions/test.npy"),
}
GOLDEN = {
    "model/architecture.json": "29fea3e0a139d0ff",
    "model/model.keras": "4b07717ef7b0d8b2",
    "model/model.weights.h5": "b827378b850a8d4e",
    "saved_model/saved_model/saved_model.pb": "ee83df593053bcaa",
    "saved_model/saved_model/variables/variables.data-00000-of-00001": "ffc693bba2ba3161",
    "litert/model.tflite": "fbb539edbad9d8df",
    "int8_dynamic/model.tflite": "df939ff1e64faf08",
    "export/README.md": "31e69de5e977df3b",
    "export/transform/transform.json": "3dbe9bdc1f44db69",
    "trained/state/ledger.jsonl": "20620f0aa0f10aaf",
    "report/report.json": "bb800f48578911ae",
    "report/predictions/test.npy": "9e9f21b96fe3602c",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stages, in a process of their own with one thread."""
    root = tmp_path_factory.mktemp("golden")
    with ProcessLauncher(root / "logs", 1).gang("golden") as gang:
        gang.call(Work(make, (root,)), None, root / "journal", limits=Limits(), on_report=lambda *_: None)
    return root


def make(_: Workbench, root: Path) -> None:
    """Make every artifact below `root`."""
    import tasks.evaluation.report as reports
    from tasks.compression.specs import FLOAT, VariantSpec, compressed
    from tasks.compression.variants import build as compress
    from tasks.exporting.export import build as export
    from tasks.records import conversion as convert
    from tasks.snapshots import work as snapshots
    from tasks.training.fit import fit

    bench = workbench(root / "records")
    records = published(Records, bench, convert.build(bench, SklearnSource(), RecordsConfig()))
    bench = workbench(root / "snapshot")
    layout = ImageSnapshot(height=8, width=8, channels=1)
    snapshot = published(Snapshot, bench, snapshots.build(bench, records, layout))
    model = given_model(root, snapshot)
    config, evaluate = CompressConfig(), EvaluateConfig(resamples=100)
    bench = workbench(root / "evaluated")
    report = published(Report, bench, reports.build(bench, model, snapshot, records, evaluate))
    variants: dict[str, Variant] = {}
    for form in (VariantSpec("saved_model"), FLOAT, compressed(config.chains[0])):
        bench = workbench(root / form.name)
        parents = [variants.get(other.name) if other else None for other in (form.parent, form.methods and FLOAT)]
        outcome = compress(bench, form, model, snapshot, records, report, *parents, config, evaluate)
        variants[form.name] = replace(published(Variant, bench, outcome), name=form.name)
    export(workbench(root / "export"), model, snapshot, records, list(variants.values()), ExportConfig())
    train = TrainConfig(steps=30, batch_size=64)
    fit(workbench(root / "trained"), snapshot, CONFIG, train, 3)
    reports.inference_function = lambda network: given_logits  # type: ignore[assignment]
    reports.build(workbench(root / "report"), model, snapshot, records, evaluate)


def given_model(root: Path, snapshot: Snapshot) -> Model:
    """Publish a model whose weights are multiples of 1/256, and so exact in float32."""
    import numpy as np

    from tasks.models.keras_file import save

    features = snapshot.manifest["features"]
    network = CONFIG.build(features, seed=0)
    numbers = [np.arange(weight.size).reshape(weight.shape) * 37 % 64 for weight in network.get_weights()]
    network.set_weights([(number - 32 if number.ndim > 1 else number + 1) / 256 for number in numbers])
    bench = workbench(root / "model")
    statistics = save(network, bench.staging, CONFIG, features, seed=0)
    return published(Model, bench, Outcome(counts={}, statistics=statistics))


def given_logits(batch: Any) -> Any:
    """Return logits float32 [B, 10], multiples of 1/8, from the sums of an image's columns."""
    import numpy as np

    images = batch["image"]
    sums = images.reshape(len(images), -1).astype(np.int64).cumsum(axis=1)[:, 5:65:6]
    return (sums % 61 / 8).astype(np.float32)


def digest(root: Path, artifact: str, name: str) -> str:
    """Hash a file; of JSON the numbers to 9 digits, of a README without its numbers."""
    content = (root / artifact / name).read_bytes()
    if artifact == "report" and name.endswith(".json"):
        content = json.dumps(rounded(json.loads(content)), sort_keys=True).encode()
    if name == "README.md":
        content = re.sub(rb"[\d.]+", b"0", content)
    return hashlib.sha256(content).hexdigest()[:16]


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_the_bytes_of_every_stage(folder: Path) -> None:
    assert {f"{kind}/{name}": digest(folder, kind, name) for kind, names in FILES.items() for name in names} == GOLDEN
