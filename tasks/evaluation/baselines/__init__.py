"""Baselines: what the score of a model is compared with, on the same examples, and by how much it is better.

Constant ones (`constant`) know the examples that are judged, and nothing of their inputs. A learned one is a simple
model, trained on the train split; a kind is one class in one module, chosen by the inputs of the records. All of it is
bounded by rows, columns and iterations, never by time, and computed by one thread with a fixed seed, so that a report
has the same bytes again. Modules of kinds are imported on use, scikit-learn too.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tasks.config.task import TASKS
from tasks.evaluation.baselines.kind import Learned
from tasks.evaluation.splits import TRAIN, SnapshotSplit
from tasks.sources.features import of_role

KINDS = {
    ("number", "category", "time"): "tables:Tables",
    ("image",): "arrays:Images",
    ("audio",): "arrays:Sounds",
    ("text", "words"): "texts:Texts",
}
"""The class of each kind of data, by the kinds of the inputs that it reads; the first one with such inputs is used."""


def learned(task: str, snapshot: Path, records: Path) -> Learned | None:
    """Train the learned baseline of a task on the train split of a snapshot and of the records that it was made from.

    Returns:
        None where a simple model reads none of the inputs, and of a language model, whose judge has its bigrams.
    """
    if TASKS[task].target is None:
        return None
    train = SnapshotSplit(snapshot, records, TRAIN)
    if TASKS[task].of_tokens:
        from tasks.evaluation.baselines.tags import Tags

        return Tags.of(train)
    from tasks.evaluation.baselines.kind import Estimated

    inputs = of_role(train.raw, "input")
    for kinds, where in KINDS.items():
        module, _, name = where.partition(":")
        of_kinds = [column for column, feature in inputs.items() if feature.kind in kinds]
        kind = getattr(import_module(f"{__name__}.{module}"), name)
        if columns := kind.readable(train, of_kinds):
            return Estimated(task, kind, columns, train)
    return None
