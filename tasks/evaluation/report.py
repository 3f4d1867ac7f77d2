"""The report of a model: metrics with intervals, details by task, plots, and all predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot
from tasks.config import EvaluateConfig
from tasks.config.task import TASKS
from tasks.data import open_snapshot
from tasks.evaluation import REPORT_VERSION, primary_metric, select_metrics
from tasks.evaluation.intervals import LEVEL, SEED, flat, interval_of, intervals
from tasks.evaluation.judging import Judge, Kept, SnapshotSplit, make_judge, run_model
from tasks.evaluation.own_metrics import own_metrics
from tasks.models.forward import inference_function
from tasks.models.keras_file import architecture, load
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

SPLITS = ("validation", "test")
PICTURED = "test"
LEAST, MOST = 5, 100
"""Smallest slice that gets a score, in examples, and the largest number of slices with one (the largest slices)."""


def build(bench: Workbench, model: Model, snapshot: Snapshot, records: Records, config: EvaluateConfig) -> Outcome:
    """Evaluate a model on the validation and test splits.

    Writes `report.json`, `pictures/<name>.png` (of the test split) and `predictions/<split>.npy` (float32, in stored
    order: logits [N, classes], or the array that the task's `Judge.saved` names), for paired comparisons; what else
    the judge keeps in `predictions/<split>.<array>.npy`, so that variants are compared without running Keras again.

    Raises:
        Failed: a split is empty, or the model's outputs are not finite.
    """
    plan = architecture(model.path)
    task, loss = plan["model"]["task"], plan["loss"]
    call = inference_function(load(model.path))
    splits: dict[str, Any] = {}
    flattened: dict[str, float] = {}
    counts: dict[str, int] = {}
    sample: dict[str, Any] = {}
    for split in SPLITS:
        judge = make_judge(task, SnapshotSplit(snapshot.path, records.path, split), config, loss)
        kept = run_model(judge, call, name=split, progress=bench.progress).kept
        for key, array in kept.items():
            with bench.staging.piece(_file(split, key, judge)) as piece, open(piece.path, "wb") as file:
                np.save(file, array)
        predictions = judge.predictions(kept)
        metrics = intervals(judge.metrics, select_metrics(task, config.metrics), predictions, config.resamples)
        if (target := TASKS[task].target) is not None:
            targets = np.asarray(open_snapshot(snapshot.path).arrays(split)[target])
            metrics |= own_metrics(config, targets, kept[judge.saved])
        details, figures = judge.details(predictions), judge.figures(predictions)
        splits[split] = {
            "examples": judge.examples,
            "metrics": {name: item.as_json() for name, item in metrics.items()},
            **({"figures": figures} if figures else {}),
            "slices": _slices(judge, task, predictions, config.resamples),
            "baselines": judge.baselines,
            **details,
        }
        besides = {**judge.baselines, **figures}
        flattened |= flat(split, metrics) | {f"{split}/{name}": value for name, value in besides.items()}
        counts[split] = judge.examples
        if split == PICTURED:
            for name, png in judge.pictures(predictions, details).items():
                bench.staging.put(f"pictures/{name}.png", png)
            sample = judge.show(call)
    metric, higher = primary_metric(task)
    report = {
        "version": REPORT_VERSION,
        "task": task,
        "loss": loss,
        "primary": {"metric": metric, "higher_is_better": higher},
        "interval": {"level": LEVEL, "method": "percentile bootstrap", "resamples": config.resamples, "seed": SEED},
        "splits": splits,
        **sample,
    }
    bench.staging.put("report.json", pretty(report))
    return Outcome(counts=counts, statistics={"metrics": flattened})


def read_kept(report: Report, split: str, judge: Judge) -> Kept:
    """Read what the judge kept of the model's outputs on a split when the report was made."""
    folder = report.path / "predictions"
    others = {path.suffixes[-2][1:]: path for path in folder.glob(f"{split}.*.npy")}
    return {key: np.load(path) for key, path in {judge.saved: folder / f"{split}.npy", **others}.items()}


def _file(split: str, key: str, judge: Judge) -> str:
    return f"predictions/{split}.npy" if key == judge.saved else f"predictions/{split}.{key}.npy"


def _slices(judge: Judge, task: str, predictions: Any, resamples: int) -> list[dict[str, Any]]:
    """Return the primary metric on groups of the examples, or the reason why a group has no score."""
    metric = judge.metrics[primary_metric(task)[0]]
    contributions = metric.contributions(predictions)
    groups = {name: (group, int(group.sum())) for name, group in judge.slices(predictions).items()}
    large_enough = [name for name, (_, count) in groups.items() if LEAST <= count < judge.examples]
    largest = set(sorted(large_enough, key=lambda name: -groups[name][1])[:MOST])
    rows = []
    for name, (group, count) in groups.items():
        row: dict[str, Any] = {"slice": name, "examples": count}
        if name in largest:
            rows.append(row | interval_of(metric, contributions[group], resamples).as_json())
            continue
        reason = (
            f"fewer than {LEAST}"
            if count < LEAST
            else "the whole split"
            if count == judge.examples
            else "beyond the limit"
        )
        rows.append(row | {"value": None, "low": None, "high": None, "why": reason})
    return rows
