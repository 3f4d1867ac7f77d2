"""The report of a model: metrics with intervals, classes, the most wrong examples, pictures, all its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tasks.artifacts import Model, Records, Snapshot
from tasks.config import EvaluateConfig
from tasks.data import open_snapshot
from tasks.errors import Failed
from tasks.evaluation import REPORT_VERSION, chosen, pictures, primary
from tasks.evaluation.intervals import LEVEL, SEED, flat, intervals
from tasks.evaluation.metrics import Answers
from tasks.models.features import LABEL, classes, model_input
from tasks.models.forward import Examples, predict
from tasks.models.keras_file import architecture, load
from tasks.runtime import pin
from tasks.store.files import pretty
from tasks.workbench import Outcome, Workbench

SPLITS = ("validation", "test")
PICTURED = "test"


def build(bench: Workbench, model: Model, snapshot: Snapshot, records: Records, config: EvaluateConfig) -> Outcome:
    """Judge a model on the validation and test splits.

    Writes `report.json`, `pictures/<what>.png` (of the test split) and `predictions/<split>.npy` (float32 logits
    [N, classes] in stored order, so that a later model can be compared example by example).

    Raises:
        Failed: a split is empty, or the model's outputs are not finite.
    """
    pin(bench.threads)
    plan = architecture(model.path)
    task, features = plan["model"]["task"], plan["features"]
    names, source = classes(features), model_input(features)
    network, examples = load(model.path), open_snapshot(snapshot.path)
    metrics = chosen(task, config.metrics)
    splits: dict[str, Any] = {}
    flattened: dict[str, float] = {}
    counts: dict[str, int] = {}
    for done, split in enumerate(SPLITS):
        bench.progress(done, len(SPLITS), "splits")
        arrays = examples.arrays(split)
        answers, logits = answer(network, arrays, source.name, split, config.bins)
        with bench.staging.piece(f"predictions/{split}.npy") as piece, open(piece.path, "wb") as file:
            np.save(file, logits)
        found = intervals(metrics, answers, config.resamples)
        rows = most_wrong(answers, config.most_wrong)
        keys = examples.keys(split, rows, records.path)
        wrong = [_wrong(answers, names, int(row), str(key)) for row, key in zip(rows, keys, strict=True)]
        splits[split] = {
            "examples": len(logits),
            "metrics": {name: item.as_json() for name, item in found.items()},
            "classes": by_class(answers, names),
            "confusion": confusion_matrix(answers.labels, answers.predicted, labels=range(len(names))).tolist(),
            "most_wrong": wrong,
        }
        flattened |= flat(split, found)
        counts[split] = len(logits)
        if split == PICTURED:
            for name, png in _pictures(answers, names, arrays[source.name], wrong, split).items():
                bench.staging.put(f"pictures/{name}.png", png)
    metric, higher = primary(task)
    report = {
        "version": REPORT_VERSION,
        "task": task,
        "primary": {"metric": metric, "higher_is_better": higher},
        "interval": {"level": LEVEL, "method": "percentile bootstrap", "resamples": config.resamples, "seed": SEED},
        "splits": splits,
    }
    bench.staging.put("report.json", pretty(report))
    bench.progress(len(SPLITS), len(SPLITS), "splits")
    return Outcome(counts=counts, statistics={"metrics": flattened})


def answer(
    network: Any, arrays: Mapping[str, Examples], feature: str, split: str, bins: int
) -> tuple[Answers, npt.NDArray[np.float32]]:
    """The answers to a whole split and the logits behind them, [N, classes]."""
    labels = np.asarray(arrays[LABEL])
    if not len(labels):
        raise Failed(f"split {split}", "0 examples", "a model is judged on examples", "enlarge it in records.splits")
    logits = predict(network, arrays[feature])
    if not np.isfinite(logits).all():
        bad = int((~np.isfinite(logits)).any(axis=-1).sum())
        raise Failed(
            "model",
            f"outputs of {bad} of {len(logits)} {split} examples are not finite",
            "a model answers with numbers",
            "lower train.schedule.rate or set train.clip_norm",
        )
    return Answers.of(logits, labels, bins), logits


def most_wrong(answers: Answers, most: int) -> npt.NDArray[np.int64]:
    """Rows that were answered wrongly, the most confident first, ties by row."""
    rows = np.flatnonzero(~answers.correct)
    return rows[np.lexsort((rows, -answers.confidence[rows]))][:most]


def by_class(answers: Answers, names: list[str]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, None where there is nothing to take a share of; its examples."""
    columns = precision_recall_fscore_support(
        answers.labels, answers.predicted, labels=range(len(names)), zero_division=np.nan
    )
    rows = zip(names, *columns, strict=True)
    return [
        {"class": name, "precision": _or_none(p), "recall": _or_none(r), "f1": _or_none(f), "support": int(support)}
        for name, p, r, f, support in rows
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _wrong(answers: Answers, names: list[str], row: int, key: str) -> dict[str, Any]:
    return {
        "row": row,
        "key": key,
        "label": names[answers.labels[row]],
        "predicted": names[answers.predicted[row]],
        "confidence": float(answers.confidence[row]),
    }


def _pictures(
    answers: Answers, names: list[str], examples: Examples, wrong: list[dict[str, Any]], split: str
) -> dict[str, bytes]:
    drawn = {
        "confusion": pictures.confusion(answers, names, split),
        "reliability": pictures.reliability(answers, split),
        "curves": pictures.curves(answers, names, split),
    }
    images = np.asarray(examples[np.array([row["row"] for row in wrong], np.int64)])
    if images.ndim == 4 and images.dtype == np.uint8:
        drawn["most_wrong"] = pictures.most_wrong(images, wrong, f"{split}: most confidently wrong")
    return drawn
