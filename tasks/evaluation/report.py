"""The report of a model: metrics with intervals, details by task, plots, and all predictions."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Model, Outcome, Records, Report, Snapshot
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.evaluation import REPORT_VERSION, decisions, further, robustness, slices, units
from tasks.evaluation.baselines import comparing, learned
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.intervals import flat, intervals
from tasks.evaluation.judging import Judge, Kept, examples_of, names_of, run_model
from tasks.evaluation.measured import LEVEL
from tasks.evaluation.own_metrics import own_metrics
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.models.forward import inference_function
from tasks.models.keras_file import architecture, load
from tasks.models.outputs import with_main_output
from tasks.models.usage import Usage
from tasks.store.files import pretty

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench

log = logging.getLogger(__name__)

SPLITS = ("validation", "test")
SLICES = "slices.npy"
FITTED, PICTURED = "validation", "test"


def build(bench: Workbench, model: Model, snapshot: Snapshot, records: Records, config: EvaluateConfig) -> Outcome:
    """Evaluate a model on the validation and test splits.

    Temperature and thresholds are fitted on validation, and reported on both.

    Writes `report.json`, `decision.json` (where something is fitted), `pictures/<name>.png` (of the test split),
    `slices.npy` (bits, uint8 [slices, examples / 8]: the examples of each slice of the test split, in the order of the
    report's `slices`), and `predictions/<split>.npy` (float32, in stored order: logits [N, classes], or the array that
    the task's `Judge.saved` names), for paired comparisons; what else the judge keeps in
    `predictions/<split>.<array>.npy`, so that variants are compared without running Keras again.

    Raises:
        Failed: a split is empty, or has no value of what decides, the model's outputs are not finite, or a setting does
            not fit the records or classes.
    """
    plan = architecture(model.path)
    task, loss = plan["model"]["task"], plan["loss"]
    network = load(model.path)
    call = inference_function(with_main_output(network))
    splits: dict[str, Any] = {}
    flattened: dict[str, float] = {}
    counts: dict[str, int] = {}
    sample: dict[str, Any] = {}
    decision = decisions.Decision()
    metric, higher = config.primary_of(task)
    usage = Usage.of_model(model.path)
    simple = learned(task, snapshot.path, records.path)
    for split in SPLITS:
        examples = SnapshotSplit(snapshot.path, records.path, split)
        judge = make_judge(task, examples, config, loss)
        kept = run_model(judge, call, name=split, progress=bench.progress).kept
        for key, array in kept.items():
            with bench.staging.piece(_file(split, key, judge)) as piece, open(piece.path, "wb") as file:
                np.save(file, array)
        if split == FITTED:
            decision = decisions.fit(judge, judge.predictions(kept), config)
        decision.settle(judge)
        predictions = judge.predictions(kept)
        names = names_of(judge, task, config)
        metrics = intervals(judge.metrics, names, predictions, judge.units)
        if TASKS[task].target is not None:
            metrics |= own_metrics(config, judge.targets, kept[judge.saved], judge.units)
        if undefined := [name for name in names if name not in metrics]:
            log.warning("%s of %s: no value, as its examples are too few or of one class", ", ".join(undefined), split)
        if metric in undefined:
            saw, rule = (
                f"no {metric} of {split}, whose examples are of one class",
                "what decides has a value in each split",
            )
            raise Failed("evaluate.primary", saw, rule, "add examples of each class, or let another metric decide")
        decided, more = decisions.measured(judge, predictions, decision, config)
        details, figures = judge.details(predictions), judge.figures(predictions)
        others, of_others = further.measured(
            network, plan.get("losses", {}), snapshot.path, records.path, split, config
        )
        splits[split] = {
            "examples": judge.examples,
            **({} if judge.units is None else {"units": units.count(judge.units, judge.examples)}),
            **_seen(usage, judge, examples),
            "metrics": {name: item.as_json() for name, item in metrics.items()},
            **({"undefined": undefined} if undefined else {}),
            **({"figures": figures} if figures else {}),
            **slices.measured(judge, task, examples, kept, decision, config),
            **(compared := comparing.measured(task, judge, examples, simple, kept, config)),
            **decided,
            **details,
            **others,
        }
        constants = {name: row["value"] for name, row in compared["baselines"].items()}
        besides = {**constants, **figures, **more}
        flattened |= (
            flat(split, metrics)
            | comparing.flat(split, compared, metric)
            | {f"{split}/{name}": value for name, value in besides.items()}
            | of_others
        )
        counts[split] = judge.examples
        if split == PICTURED:
            masks = list(slices.masks_of(judge, examples, predictions, config).values())
            with bench.staging.piece(SLICES) as piece, open(piece.path, "wb") as file:
                np.save(file, np.packbits(np.array(masks, np.bool_).reshape(len(masks), judge.examples), axis=1))
            for name, png in judge.pictures(predictions, details).items():
                bench.staging.put(f"pictures/{name}.png", png)
            sample = judge.show(call)
            if config.robustness:
                row = (judge, examples, call, kept, metric, 1 if higher else -1)
                splits[split]["robustness"] = robustness.measured(config, *row, bench.progress)
    report = {
        "version": REPORT_VERSION,
        "task": task,
        "loss": loss,
        "primary": {"metric": metric, "higher_is_better": higher},
        "interval": {"level": LEVEL, "resamples": config.resamples},
        **({"decision": decision.as_json()} if decision.fitted else {}),
        "splits": splits,
        **sample,
    }
    if simple is not None:
        bench.measure("evaluate/learned_baseline_seconds", round(simple.seconds, 3))
    if decision.fitted:
        bench.staging.put(decisions.FILE, pretty(decision.as_json()))
    bench.staging.put("report.json", pretty(report))
    return Outcome(counts=counts, statistics={"metrics": flattened})


def _seen(usage: Usage, judge: Judge, split: SnapshotSplit) -> dict[str, Any]:
    """Return the field `seen`: how many examples the model, or what it began from, was trained, stopped or chosen on,
    by use; nothing where it was on none, as is usual for a test split."""
    if split.name != PICTURED:
        return {}
    used = {use: int(examples_of(judge, rows).sum()) for use, rows in usage.used(split.hashes()).items()}
    found: dict[str, Any] = {use: count for use, count in used.items() if count}
    if usage.unknown:
        found["unknown"] = list(usage.unknown)
    return {"seen": found} if found else {}


def read_kept(report: Report, split: str, judge: Judge) -> Kept:
    """Read what the judge kept of the model's outputs on a split when the report was made."""
    folder = report.path / "predictions"
    others = {path.suffixes[-2][1:]: path for path in folder.glob(f"{split}.*.npy")}
    return {key: np.load(path) for key, path in {judge.saved: folder / f"{split}.npy", **others}.items()}


def _file(split: str, key: str, judge: Judge) -> str:
    return f"predictions/{split}.npy" if key == judge.saved else f"predictions/{split}.{key}.npy"


def read_slices(report: Report, split: str) -> tuple[Any, dict[str, npt.NDArray[np.bool_]]]:
    """Return the rows of the slices with a score in `report.json`, and the examples of each, bool [examples]."""
    assert split == PICTURED
    content = json.loads((report.path / "report.json").read_bytes())["splits"][split]
    bits = np.load(report.path / SLICES)
    masks = np.unpackbits(bits, axis=1, count=content["examples"]).astype(np.bool_)
    rows = [(row, mask) for row, mask in zip(content["slices"], masks, strict=True) if row["value"] is not None]
    return [row for row, _ in rows], {row["slice"]: mask for row, mask in rows}
