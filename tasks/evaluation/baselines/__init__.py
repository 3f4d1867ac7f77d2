"""Baselines: what the score of a model is compared with, on the same examples, and by how much it is better.

Constant ones (`Judge.constants`) know the examples that are judged, and nothing of their inputs. A learned one is a
simple model, trained on the train split; a kind is one class of `kinds`, chosen by the inputs of the records. All of it
is bounded by rows, columns and iterations, never by time, and computed by one thread with a fixed seed, so that a
report has the same bytes again. scikit-learn is imported on use.
"""

from __future__ import annotations

from pathlib import Path

from tasks.config.base import subclasses
from tasks.config.task import TASKS
from tasks.evaluation.baselines.kinds import Tags
from tasks.evaluation.baselines.simple_model import Estimated, Learned, SimpleModel, head_of
from tasks.evaluation.splits import TRAIN, SnapshotSplit
from tasks.sources.features import of_role


def learned(task: str, snapshot: Path, records: Path) -> Learned | None:
    """Train the learned baseline of a task on the train split of a snapshot and of the records that it was made from.

    Returns:
        None where a simple model reads none of the inputs or does not learn the task, and of a language model, whose
        judge has its bigrams.
    """
    if TASKS[task].target is None:
        return None
    train = SnapshotSplit(snapshot, records, TRAIN)
    if TASKS[task].of_tokens:
        return Tags.of(train)
    if (head := head_of(task)) is None:
        return None
    inputs = of_role(train.raw, "input")
    for kind in subclasses(SimpleModel):
        if columns := kind.readable(train, [name for name, feature in inputs.items() if feature.kind in kind.reads]):
            return Estimated(head, kind, columns, train)
    return None
