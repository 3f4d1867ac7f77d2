"""One variant of a model: written, run on the test split, judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Model, Outcome, Records, Snapshot, Variant
from tasks.compression import FLOAT, FORMATS, INT8_DYNAMIC, int8_dynamic
from tasks.config import CompressConfig, EvaluateConfig
from tasks.evaluation import TASKS, gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.intervals import examples_needed, flat, intervals
from tasks.evaluation.judging import Against, Asked, Call, Judge, Kept, SnapshotSplit, ask, compare, judge, limit
from tasks.exporting import FILES, LITERT, REFERENCE, SAVED_MODEL, litert, saved_model
from tasks.exporting.export import write_arrays
from tasks.exporting.run import open_variant
from tasks.models.forward import caller
from tasks.models.keras_file import architecture, load
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

SPLIT = "test"
PROBED = 1 << 26
"""Outputs that are held against Keras' one by one: all of them, but of a language model's those of the first rows."""


def build(
    bench: Workbench,
    name: str,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    parent: Variant | None,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Make the variant `name`: `saved_model` from the model, the others from their float parent.

    Writes its folder or file (`saved_model/` or `model.tflite`) and `variant.json`: name, format, file, bytes, files,
    quality on the test split with intervals, what it loses against Keras with 95 % bounds, the gates' verdicts, and
    whether none of them failed. Resamples and bins are those of `evaluate`. A rejected variant is made all the same.
    A float form also keeps what Keras answered (`reference.npz`), so that Keras is asked once for all made from it.
    """
    bench.staging.reserve(model.bytes)
    network = load(model.path)
    plan = architecture(model.path)
    task, loss = plan["model"]["task"], plan["loss"]
    form = FORMATS[name]
    _write(bench, name, network, parent)

    found = judge(task, SnapshotSplit(snapshot.path, records.path, SPLIT), evaluate, loss)
    variant_call = open_variant(bench.staging.root, form, bench.threads)
    (own,) = ask(found, variant_call, name=SPLIT, progress=bench.progress).kept
    reference = _reference(found, caller(network), parent)
    if name in FLOAT:
        with bench.staging.piece(REFERENCE) as piece:
            write_arrays(piece.path, reference)
    metrics_found = intervals(found.metrics, TASKS[task].metrics, found.answers(own), evaluate.resamples)
    against = compare(task, found, reference, own, evaluate.resamples)
    probed = min(len(found.inputs), max(1, PROBED // found.outputs))
    probe = ask(found, caller(network), variant_call, name=SPLIT, most=probed)

    files = bench.staging.pieces(FILES[form])
    size = sum(file["bytes"] for file in files.values())
    float_size = _bytes(parent) if parent is not None and parent.name == LITERT else size
    verdicts = _judge(task, name, size, float_size, probe, against, found.examples, config)
    variant = {
        "name": name,
        "format": form,
        "file": FILES[form],
        "bytes": size,
        "files": sorted(files),
        "quality": {"split": SPLIT, "metrics": {metric: item.as_json() for metric, item in metrics_found.items()}},
        "against_float": {
            **against.as_json(),
            "max_abs_difference": probe.max_abs_difference,
            "largest": probe.largest,
            "probed": probed,
        },
        "gates": [verdict.as_json() for verdict in verdicts],
        "accepted": all(verdict.verdict != gates.FAIL for verdict in verdicts),
    }
    bench.staging.put("variant.json", pretty(variant))
    metrics = {
        **flat(f"{name}/{SPLIT}", metrics_found),
        **{f"{name}/{SPLIT}/{figure}": value for figure, value in against.figures.items()},
        f"{name}/bytes": size,
    }
    if form == LITERT:
        metrics[f"{name}/size_ratio"] = size / float_size
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


def _reference(found: Judge, keras_call: Call, parent: Variant | None) -> Kept:
    """What Keras answers, by which a variant is judged: asked, or as the float form remembers it."""
    if parent is None:
        return ask(found, keras_call, name=SPLIT).kept[0]
    with np.load(parent.path / REFERENCE) as kept:
        return dict(kept)


def _judge(
    task: str,
    name: str,
    size: int,
    float_size: int,
    probe: Asked,
    against: Against,
    examples: int,
    config: CompressConfig,
) -> list[Verdict]:
    if name in FLOAT:
        return [gates.parity(probe.max_abs_difference, probe.largest, config.max_difference)]
    most = limit(task, config.max_quality_loss, against.before)
    needed, counted = examples_needed(against.share, most), "files" if task == "language_model" else "examples"
    quality = gates.quality(against.lower, against.upper, most, examples, needed, counted)
    return [gates.size(size, float_size, config.max_size_ratio), quality]


def _bytes(variant: Variant) -> int:
    size: int = variant.manifest["statistics"]["bytes"]
    return size
