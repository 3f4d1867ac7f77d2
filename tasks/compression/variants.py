"""A variant of a model: written, run on the test split, compared with Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot, Variant
from tasks.compression import is_float, method_of
from tasks.config import CompressConfig, EvaluateConfig
from tasks.config.task import TASKS
from tasks.errors import Failed, of_the_machine
from tasks.evaluation import gates
from tasks.evaluation.gates import Verdict
from tasks.evaluation.intervals import examples_needed, flat, intervals
from tasks.evaluation.judging import (
    Comparison,
    ModelOutputs,
    Probe,
    SnapshotSplit,
    compare,
    limit,
    make_judge,
    run_model,
)
from tasks.evaluation.report import read_kept
from tasks.exporting import format_of
from tasks.exporting.preprocess import in_graph
from tasks.exporting.run import open_variant
from tasks.models.forward import inference_function
from tasks.models.keras_file import architecture, load
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

SPLIT = "test"
MAX_PROBED_OUTPUTS = 1 << 26
"""Outputs that are compared with Keras' one by one, at most: of a language model those of the first rows."""


def build(
    bench: Workbench,
    name: str,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    report: Report,
    parent: Variant | None,
    config: CompressConfig,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Make the variant `name`: `saved_model` from the model, the others from their float parent.

    Writes its folder or file (`saved_model/` or `model.tflite`) and `variant.json`: name, format, file, bytes, files,
    quality on the test split with intervals, the loss against Keras with 95 % bounds, the gates' verdicts, and whether
    none of them failed. Resamples and bins are those of `evaluate`. A rejected variant is written as well.

    Keras' outputs are read from the model's report, whatever its configuration; Keras runs here for the probed rows
    only.
    """
    bench.staging.reserve(model.bytes)
    network = load(model.path)
    architecture_json = architecture(model.path)
    task, loss = architecture_json["model"]["task"], architecture_json["loss"]
    format_name = name if is_float(name) else method_of(name).FORMAT
    file = format_of(format_name).FILE
    _write(bench, name, file, network, snapshot, parent)

    judge = make_judge(task, SnapshotSplit(snapshot.path, records.path, SPLIT), evaluate, loss)
    variant_call = open_variant(bench.staging.root, format_name, bench.threads)
    probe = Probe(inference_function(network), min(len(judge.inputs), max(1, MAX_PROBED_OUTPUTS // judge.outputs)))
    outputs = run_model(judge, variant_call, name=SPLIT, probe=probe, progress=bench.progress)
    own = judge.predictions(outputs.kept)
    quality_metrics = intervals(judge.metrics, TASKS[task].metrics, own, evaluate.resamples)
    comparison = compare(task, judge, read_kept(report, SPLIT, judge), outputs.kept, evaluate.resamples)

    files = bench.staging.pieces(file)
    size = sum(file["bytes"] for file in files.values())
    float_size = size if is_float(name) or parent is None else _bytes(parent)
    verdicts = _judge(task, name, size, float_size, outputs, comparison, judge.examples, config)
    variant = {
        "name": name,
        "format": format_name,
        "file": file,
        "bytes": size,
        "files": sorted(files),
        "quality": {"split": SPLIT, "metrics": {metric: item.as_json() for metric, item in quality_metrics.items()}},
        "against_float": {
            **comparison.as_json(),
            "max_abs_difference": outputs.max_abs_difference,
            "largest": outputs.largest,
            "probed": probe.rows,
        },
        "tolerance": config.max_difference if is_float(name) else method_of(name).TOLERANCE,
        "gates": [verdict.as_json() for verdict in verdicts],
        "accepted": all(verdict.verdict != gates.FAIL for verdict in verdicts),
    }
    bench.staging.put("variant.json", pretty(variant))
    metrics = {
        **flat(f"{name}/{SPLIT}", quality_metrics),
        **{f"{name}/{SPLIT}/{figure}": value for figure, value in comparison.figures.items()},
        f"{name}/bytes": size,
    }
    if not is_float(name):
        metrics[f"{name}/size_ratio"] = size / float_size
    statistics = {key: variant[key] for key in ("format", "bytes", "gates", "accepted")}
    return Outcome(counts={"files": len(files), SPLIT: judge.examples}, statistics={"metrics": metrics, **statistics})


def _write(bench: Workbench, name: str, file: str, network: Any, snapshot: Snapshot, parent: Variant | None) -> None:
    """Write a variant's file or folder, a float one as its format does, any other as its method does."""
    scratch = bench.staging.scratch(name)
    float_file = None if parent is None else parent.path / format_of(parent.manifest["statistics"]["format"]).FILE
    if is_float(name):
        try:
            format_of(name).write(network, in_graph(snapshot.path), float_file, scratch / file)
        except Exception as error:  # each library's converter has its own
            if of_the_machine(error) is not None:
                raise
            saw = f"{name}: {' '.join(str(error).split())[:500]}"
            rule = "a listed format is one that the model can be converted to"
            raise Failed("export.formats", saw, rule, f"leave {name} out") from error
    else:
        assert float_file is not None, f"{name} is made from a float variant"
        method_of(name).write(float_file, scratch / file)
    bench.staging.take(scratch)


def _judge(
    task: str,
    name: str,
    size: int,
    float_size: int,
    outputs: ModelOutputs,
    comparison: Comparison,
    examples: int,
    config: CompressConfig,
) -> list[Verdict]:
    if is_float(name):
        return [gates.parity(outputs.max_abs_difference, outputs.largest, config.max_difference)]
    max_loss = limit(task, config.max_quality_loss, comparison.before)
    needed = examples_needed(comparison.share, max_loss)
    quality = gates.quality(comparison.lower, comparison.upper, max_loss, examples, needed, TASKS[task].counted)
    return [gates.size(size, float_size, config.max_size_ratio), quality]


def _bytes(variant: Variant) -> int:
    size: int = variant.manifest["statistics"]["bytes"]
    return size
