"""Metrics of an export on the records of a split, from raw input to prediction, to score a champion on new data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.config import EvaluateConfig
from tasks.config.task import LABEL, TARGET, TASKS
from tasks.data.images import prepare
from tasks.data.reading import RecordsReader
from tasks.errors import Failed
from tasks.evaluation import primary_metric
from tasks.evaluation.intervals import intervals
from tasks.evaluation.judging import Split, make_judge, run_model
from tasks.exporting.raw import RawSplit, TextSplit
from tasks.exporting.run import float_model
from tasks.exporting.transform import read_transform

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


def score(bench: Workbench, export: Path, records: Path, split: str, config: EvaluateConfig) -> dict[str, Any]:
    """Score an export on the records of a split, with the resamples and bins of `config`.

    Labels are matched by class name, so that the order of the classes may differ.

    Returns:
        `{metric: value, metric + "/low": ..., metric + "/high": ..., "examples": n}`; where the primary metric
        counts examples also `"correct": [bool, ...]` in stored order, for a comparison of two exports by example.

    Raises:
        Failed: the split has no examples, an image cannot be decoded, or the export does not know
            a class of the records.
    """
    transform, reader = read_transform(export), RecordsReader(records)
    if not reader.counts.get(split, 0):
        raise Failed(str(records), f"no examples of split {split}", "a score needs examples", "name another split")
    task, raw = _open(export, transform, reader, split)
    judge = make_judge(task, raw, config, transform.get("loss"))
    kept = run_model(judge, float_model(export), name=split, progress=bench.progress).kept
    scores: dict[str, Any] = {"examples": judge.examples}
    for name, item in intervals(judge.metrics, TASKS[task].metrics, judge.predictions(kept), config.resamples).items():
        scores |= item.flat(name)
    if (first := judge.metrics[primary_metric(task)[0]]).share:
        scores["correct"] = (first.contributions(judge.predictions(kept))[:, 0] > 0).tolist()
    return scores


def _open(export: Path, transform: dict[str, Any], reader: RecordsReader, split: str) -> tuple[str, Split]:
    """Return the task, and the examples of a split after the export's preprocessing."""
    examples = list(reader.iterate(split))
    if transform["kind"] == "tokens":
        keys = [bytes(example["key"][0]).decode() for example in examples]
        return transform["task"], TextSplit(
            export, transform, keys, [bytes(example["text"][0]) for example in examples]
        )
    if transform["kind"] == "table":
        inputs = np.stack([np.asarray(example["numbers"], np.float32) for example in examples])
        features: dict[str, Any] = {"numbers": {"dtype": "float32", "shape": list(inputs.shape[1:])}}
        arrays: dict[str, npt.NDArray] = {"numbers": inputs}
    else:
        images = [prepare(bytes(example["image"][0]), transform, str(reader.path)) for example in examples]
        arrays = {"image": np.stack(images)}
        features = {"image": {"dtype": "uint8", "shape": list(arrays["image"].shape[1:])}}
    task = transform["task"]
    if TASKS[task].target == TARGET:
        arrays[TARGET] = np.stack([np.asarray(example[TARGET], np.float32) for example in examples])
        features[TARGET] = {"dtype": "float32", "shape": [len(transform["targets"])], "names": transform["targets"]}
    else:
        arrays[LABEL] = _labels(transform, reader, examples)
        features[LABEL] = {"dtype": "int64", "shape": [], "classes": transform["classes"]}
    return task, RawSplit(split, features, arrays, export / "transform")


def _labels(transform: dict[str, Any], reader: RecordsReader, examples: list[dict[str, Any]]) -> npt.NDArray[np.int64]:
    known = {name: index for index, name in enumerate(transform["classes"])}
    of_records = list(reader.features[LABEL].classes or ()) if LABEL in reader.features else []
    if not of_records or not set(of_records) <= set(known):
        unknown = ", ".join(sorted(set(of_records) - set(known))) or "no classes"
        rule = f"the export knows {', '.join(known)}"
        raise Failed(str(reader.path), unknown, rule, "compare on records of these classes")
    return np.array([known[of_records[int(example[LABEL][0])]] for example in examples])
