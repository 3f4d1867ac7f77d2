"""What a variant loses on the split that a search chooses on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.artifacts import Model, Records, Report, Snapshot, Variant
from tasks.compression.methods import CHOSEN
from tasks.config.evaluate import EvaluateConfig
from tasks.evaluation.judging import compare, make_judge, run_model
from tasks.evaluation.report import read_kept
from tasks.evaluation.splits import SnapshotSplit
from tasks.exporting.run import open_variant
from tasks.models.keras_file import architecture

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


def lost(
    bench: Workbench,
    variant: Variant,
    model: Model,
    snapshot: Snapshot,
    records: Records,
    report: Report,
    evaluate: EvaluateConfig,
) -> float:
    """Return how much of the primary metric a variant loses against the float model on the validation split."""
    plan = architecture(model.path)
    task = plan["model"]["task"]
    judge = make_judge(task, SnapshotSplit(snapshot.path, records.path, CHOSEN), evaluate, plan["loss"])
    call = open_variant(variant.path, variant.manifest["statistics"]["format"], bench.threads)
    kept = run_model(judge, call, name=CHOSEN, progress=bench.progress).kept
    loss = compare(task, judge, read_kept(report, CHOSEN, judge), kept, evaluate).loss
    return float(loss)
