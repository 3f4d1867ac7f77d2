"""One variant of a model: written, run on the test split, judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Model, Snapshot, Variant
from tasks.compression import FLOAT, FORMATS, INT8_DYNAMIC, PARITY, int8_dynamic
from tasks.config import CompressConfig, EvaluateConfig
from tasks.data import open_snapshot
from tasks.evaluation import TASKS, gates, primary
from tasks.evaluation.gates import Verdict
from tasks.evaluation.intervals import flat, intervals, loss_upper_bound
from tasks.evaluation.metrics import METRICS, Answers
from tasks.exporting import FILES, LITERT, SAVED_MODEL, litert, saved_model
from tasks.exporting.run import open_variant
from tasks.models.features import LABEL, model_input
from tasks.models.forward import batched, predict
from tasks.models.keras_file import architecture, load
from tasks.runtime import pin
from tasks.store.files import pretty
from tasks.workbench import Outcome, Workbench

SPLIT = "test"
JUDGED = EvaluateConfig()
"""Resamples and bins as an evaluation has them by default."""


@dataclass(frozen=True)
class Against:
    """A variant's answers held against Keras', example by example."""

    metric: str
    loss: float
    upper: float
    """95 % bound."""
    agreement: float
    max_abs_difference: float

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def build(
    bench: Workbench, name: str, model: Model, snapshot: Snapshot, parent: Variant | None, config: CompressConfig
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

    arrays = open_snapshot(snapshot.path).arrays(SPLIT)
    examples = arrays[model_input(snapshot.manifest["features"]).name]
    labels = np.asarray(arrays[LABEL])
    logits = batched(open_variant(bench.staging.root, form, bench.threads), examples)
    answers = Answers.of(logits, labels, JUDGED.bins)
    found = intervals(TASKS[task].metrics, answers, JUDGED.resamples)
    against = compare(task, predict(network, examples), logits, labels)

    files = bench.staging.pieces(FILES[form])
    size = sum(file["bytes"] for file in files.values())
    reference = _bytes(parent) if parent is not None and parent.name == LITERT else size
    verdicts = _judge(name, size, reference, against, config)
    variant = {
        "name": name,
        "format": form,
        "file": FILES[form],
        "bytes": size,
        "files": sorted(files),
        "quality": {"split": SPLIT, "metrics": {metric: item.as_json() for metric, item in found.items()}},
        "against_float": against.as_json(),
        "gates": [verdict.as_json() for verdict in verdicts],
        "accepted": all(verdict.passed for verdict in verdicts),
    }
    bench.staging.put("variant.json", pretty(variant))
    metrics = {
        **flat(f"{name}/{SPLIT}", found),
        f"{name}/{SPLIT}/{against.metric}_loss": against.loss,
        f"{name}/{SPLIT}/{against.metric}_loss/high": against.upper,
        f"{name}/bytes": size,
    }
    if form == LITERT:
        metrics[f"{name}/size_ratio"] = size / reference
    statistics = {key: variant[key] for key in ("format", "bytes", "gates", "accepted")}
    return Outcome(counts={"files": len(files), SPLIT: len(labels)}, statistics={"metrics": metrics, **statistics})


def compare(task: str, reference: npt.NDArray, logits: npt.NDArray, labels: npt.NDArray) -> Against:
    """What answers lose against reference answers to the same examples, by the task's primary metric."""
    name, higher_is_better = primary(task)
    before, after = Answers.of(reference, labels), Answers.of(logits, labels)
    contributions = METRICS[name].contributions
    losses = (contributions(before) - contributions(after)).mean(axis=-1) * (1 if higher_is_better else -1)
    return Against(
        metric=name,
        loss=float(losses.mean()),
        upper=loss_upper_bound(losses, JUDGED.resamples),
        agreement=float((before.predicted == after.predicted).mean()),
        max_abs_difference=float(np.abs(reference.astype(np.float64) - logits).max()),
    )


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


def _judge(name: str, size: int, reference: int, against: Against, config: CompressConfig) -> list[Verdict]:
    if name in FLOAT:
        return [gates.parity(against.max_abs_difference, PARITY)]
    return [gates.size(size, reference, config.max_size_ratio), gates.quality(against.upper, config.max_quality_loss)]


def _bytes(variant: Variant) -> int:
    size: int = variant.manifest["statistics"]["bytes"]
    return size
