"""The report of a model: metrics with intervals, what its task has to say besides, pictures, all its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.artifacts import Model, Outcome, Records, Snapshot
from tasks.config import EvaluateConfig
from tasks.evaluation import REPORT_VERSION, chosen, primary
from tasks.evaluation.intervals import LEVEL, SEED, flat, interval_of, intervals
from tasks.evaluation.judging import Judge, SnapshotSplit, ask, judge
from tasks.models.forward import caller
from tasks.models.keras_file import architecture, load
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

SPLITS = ("validation", "test")
PICTURED = "test"
LEAST, MOST = 5, 100
"""Examples of a slice that has a score, and slices that have one; of more, those with the most examples."""


def build(bench: Workbench, model: Model, snapshot: Snapshot, records: Records, config: EvaluateConfig) -> Outcome:
    """Judge a model on the validation and test splits.

    Writes `report.json`, `pictures/<what>.png` (of the test split) and `predictions/<split>.npy` (float32, in stored
    order: logits [N, classes], or what the task keeps in their place, so that a later model can be compared example
    by example).

    Raises:
        Failed: a split is empty, or the model's outputs are not finite.
    """
    plan = architecture(model.path)
    task, loss = plan["model"]["task"], plan["loss"]
    call = caller(load(model.path))
    splits: dict[str, Any] = {}
    flattened: dict[str, float] = {}
    counts: dict[str, int] = {}
    shown: dict[str, Any] = {}
    for split in SPLITS:
        found = judge(task, SnapshotSplit(snapshot.path, records.path, split), config, loss)
        (kept,) = ask(found, call, name=split, progress=bench.progress).kept
        with bench.staging.piece(f"predictions/{split}.npy") as piece, open(piece.path, "wb") as file:
            np.save(file, kept[found.saved])
        answers = found.answers(kept)
        metrics = intervals(found.metrics, chosen(task, config.metrics), answers, config.resamples)
        details, figures = found.details(answers), found.figures(answers)
        splits[split] = {
            "examples": found.examples,
            "metrics": {name: item.as_json() for name, item in metrics.items()},
            **({"figures": figures} if figures else {}),
            "slices": _slices(found, task, answers, config.resamples),
            **({"baselines": found.baselines} if found.baselines else {}),
            **details,
        }
        besides = {**found.baselines, **figures}
        flattened |= flat(split, metrics) | {f"{split}/{name}": value for name, value in besides.items()}
        counts[split] = found.examples
        if split == PICTURED:
            for name, png in found.pictures(answers, details).items():
                bench.staging.put(f"pictures/{name}.png", png)
            shown = found.show(call)
    metric, higher = primary(task)
    report = {
        "version": REPORT_VERSION,
        "task": task,
        "loss": loss,
        "primary": {"metric": metric, "higher_is_better": higher},
        "interval": {"level": LEVEL, "method": "percentile bootstrap", "resamples": config.resamples, "seed": SEED},
        "splits": splits,
        **shown,
    }
    bench.staging.put("report.json", pretty(report))
    return Outcome(counts=counts, statistics={"metrics": flattened})


def _slices(own: Judge, task: str, answers: Any, resamples: int) -> list[dict[str, Any]]:
    """The primary metric on groups of the examples; the reason instead where a score would say nothing."""
    metric = own.metrics[primary(task)[0]]
    contributions = metric.contributions(answers)
    groups = {name: (group, int(group.sum())) for name, group in own.slices(answers).items()}
    enough = [name for name, (_, count) in groups.items() if LEAST <= count < own.examples]
    largest = set(sorted(enough, key=lambda name: -groups[name][1])[:MOST])
    rows = []
    for name, (group, count) in groups.items():
        row: dict[str, Any] = {"slice": name, "examples": count}
        if name in largest:
            rows.append(row | interval_of(metric, contributions[group], resamples).as_json())
            continue
        why = (
            f"fewer than {LEAST}"
            if count < LEAST
            else "the whole split"
            if count == own.examples
            else "beyond the limit"
        )
        rows.append(row | {"value": None, "low": None, "high": None, "why": why})
    return rows
