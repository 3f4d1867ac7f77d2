"""How good an export is on records: raw input to prediction to metrics, so that champions meet new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tasks.config import EvaluateConfig
from tasks.data.images import prepare
from tasks.data.reading import RecordsReader
from tasks.errors import Failed
from tasks.evaluation import TASKS
from tasks.evaluation.intervals import intervals
from tasks.evaluation.metrics import Answers
from tasks.exporting.predict import float_model, read_transform
from tasks.models.features import LABEL
from tasks.models.forward import BATCH
from tasks.runtime import pin
from tasks.workbench import Workbench

TASK = "classification"
JUDGED = EvaluateConfig()


def score(bench: Workbench, export: Path, records: Path, split: str) -> dict[str, Any]:
    """The export's metrics on the records of a split.

    Labels are matched by the names of their classes, so that the order of classes may have changed.

    Returns:
        `{metric: value, metric + "/low": ..., metric + "/high": ..., "examples": n, "correct": [bool, ...]}`, the
        last in stored order, so that two exports can be compared example by example.

    Raises:
        Failed: the records have no examples of that split, an image cannot be decoded, or the export does not know
            a class of theirs.
    """
    pin(bench.threads)
    transform, reader = read_transform(export), RecordsReader(records)
    known = {name: index for index, name in enumerate(transform["classes"])}
    theirs = list(reader.features[LABEL].classes or ()) if LABEL in reader.features else []
    if not theirs or not set(theirs) <= set(known):
        unknown = ", ".join(sorted(set(theirs) - set(known))) or "no classes"
        raise Failed(
            str(records), unknown, f"the export knows {', '.join(known)}", "compare on records of these classes"
        )
    count = reader.counts.get(split, 0)
    if not count:
        raise Failed(str(records), f"no examples of split {split}", "a score needs examples", "name another split")
    run, logits, labels = float_model(export), [], []
    for start in range(0, count, BATCH):
        bench.progress(start, count, "examples")
        examples = list(reader.iterate(split, start, min(start + BATCH, count)))
        images = [prepare(bytes(example["image"][0]), transform, str(records)) for example in examples]
        logits.append(run(np.stack(images)))
        labels += [known[theirs[int(example[LABEL][0])]] for example in examples]
    answers = Answers.of(np.concatenate(logits), np.array(labels), JUDGED.bins)
    found: dict[str, Any] = {"examples": count, "correct": answers.correct.tolist()}
    for name, item in intervals(TASKS[TASK].metrics, answers, JUDGED.resamples).items():
        found |= {name: item.value, f"{name}/low": item.low, f"{name}/high": item.high}
    return found
