"""One variant of a model: written, run on the test split, judged."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Records, Snapshot, Variant
from tasks.compression import FLOAT, FORMATS, INT8_DYNAMIC, int8_dynamic
from tasks.config import CompressConfig, EvaluateConfig
from tasks.evaluation import TASKS, gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.intervals import flat, intervals
from tasks.evaluation.judging import Against, SnapshotSplit, ask, compare, judge, limit
from tasks.exporting import FILES, LITERT, SAVED_MODEL, litert, saved_model
from tasks.exporting.run import open_variant
from tasks.models.forward import caller
from tasks.models.keras_file import architecture, load
from tasks.runtime import pin
from tasks.store.files import pretty
from tasks.workbench import Outcome, Workbench

SPLIT = "test"
JUDGED = EvaluateConfig()
"""Resamples and bins as an evaluation has them by default."""


def build(
    bench: Workbench,
    name: str,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    parent: Variant | None,
    config: CompressConfig,
) -> Outcome:
    """Make the variant `name`: `saved_model` from the model, the others from their float parent.

    Writes its folder or file (`saved_model/` or `model.tflite`) and `variant.json`: name, format, file, bytes, files,
    quality on the test split with intervals, what it loses against Keras with the upper 95 % bound, the gates'
    verdicts, and whether it is accepted. A rejected variant is made all the same.
    """
    pin(bench.threads)
    network = load(model.path)
    task = architecture(model.path)["model"]["task"]
    form = FORMATS[name]
    _write(bench, name, network, parent)

    found = judge(task, SnapshotSplit(snapshot.path, records.path, SPLIT), JUDGED)
    variant_call = open_variant(bench.staging.root, form, bench.threads)
    asked = ask(found, caller(network), variant_call, name=SPLIT, progress=bench.progress)
    metrics_found = intervals(found.metrics, TASKS[task].metrics, found.answers(asked.kept[1]), JUDGED.resamples)
    against = compare(task, found, asked, JUDGED.resamples)

    files = bench.staging.pieces(FILES[form])
    size = sum(file["bytes"] for file in files.values())
    reference = _bytes(parent) if parent is not None and parent.name == LITERT else size
    verdicts = _judge(task, name, size, reference, against, config)
    variant = {
        "name": name,
        "format": form,
        "file": FILES[form],
        "bytes": size,
        "files": sorted(files),
        "quality": {"split": SPLIT, "metrics": {metric: item.as_json() for metric, item in metrics_found.items()}},
        "against_float": against.as_json(),
        "gates": [verdict.as_json() for verdict in verdicts],
        "accepted": all(verdict.passed for verdict in verdicts),
    }
    bench.staging.put("variant.json", pretty(variant))
    metrics = {
        **flat(f"{name}/{SPLIT}", metrics_found),
        **{f"{name}/{SPLIT}/{figure}": value for figure, value in against.figures.items()},
        f"{name}/bytes": size,
    }
    if form == LITERT:
        metrics[f"{name}/size_ratio"] = size / reference
    statistics = {key: variant[key] for key in ("format", "bytes", "gates", "accepted")}
    return Outcome(counts={"files": len(files), SPLIT: found.examples}, statistics={"metrics": metrics, **statistics})


def _write(bench: Workbench, name: str, network: Any, parent: Variant | None) -> None:
    if name == SAVED_MODEL:
        scratch = bench.staging.scratch(name)
        saved_model.write(network, scratch)
        bench.staging.take(scratch, FILES[SAVED_MODEL])
        return
    assert parent is not None, f"{name} is made from a float variant"
    with bench.staging.piece(FILES[LITERT]) as piece:
        if name == INT8_DYNAMIC:
            int8_dynamic.write(parent.path / FILES[LITERT], piece.path)
        else:
            litert.write(parent.path / FILES[SAVED_MODEL], piece.path)


def _judge(task: str, name: str, size: int, reference: int, against: Against, config: CompressConfig) -> list[Verdict]:
    if name in FLOAT:
        return [gates.parity(against.max_abs_difference, against.largest, config.max_difference)]
    most = limit(task, config.max_quality_loss, against.before)
    return [gates.size(size, reference, config.max_size_ratio), gates.quality(against.upper, most)]


def _bytes(variant: Variant) -> int:
    size: int = variant.manifest["statistics"]["bytes"]
    return size
