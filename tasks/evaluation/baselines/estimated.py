"""A learned baseline of estimators: one kind of data, one task."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.task import LABEL, TARGET, WEIGHT
from tasks.evaluation.baselines.heads import HEADS
from tasks.evaluation.baselines.kind import Floats, Kind, evenly
from tasks.evaluation.baselines.learned import Learned
from tasks.evaluation.judging import Judge
from tasks.evaluation.splits import SnapshotSplit

BLOCK = 4096
"""Examples that are in memory at once."""


class Estimated(Learned):
    """Has outputs as the model's: logits, or numbers in the targets' units."""

    def __init__(self, task: str, kind: type[Kind], names: list[str], train: SnapshotSplit) -> None:
        """Train on rows that are evenly spaced in the train split's stored order, with their weights.

        Args:
            names: the inputs of the records that the kind reads.
        """
        with self.timed():
            head, total = HEADS[task], _rows(train)
            rows = evenly(total, kind.rows)
            self.name, self.rows = kind.name, len(rows)
            weights = (
                np.asarray(train.arrays[WEIGHT][rows], np.float64) if WEIGHT in train.arrays else np.ones(len(rows))
            )
            truth = np.asarray(train.arrays[LABEL if head.of_classes else TARGET][rows])
            classes = len(train.features[LABEL]["classes"]) if head.of_classes else 0
            self.kind = kind(train, rows, names)
            self.head = head(self.kind, self.kind.values(train, rows), truth, weights, classes)
        fewer = (f"all but {len(rows):,} of {total:,} train examples",) if len(rows) < total else ()
        others = [feature.kind for name, feature in train.raw.items() if feature.role == "input" and name not in names]
        counts = {each: others.count(each) for each in sorted(set(others))}
        unread = tuple(f"{count} {each} column{'s' * (count > 1)}" for each, count in counts.items())
        self.left_out = (*fewer, *unread, *self.kind.left_out, *self.head.left_out)

    def outputs(self, split: SnapshotSplit) -> Floats:
        """Return the outputs by row, float32 [rows, classes, labels or targets]."""
        total = _rows(split)
        blocks = (np.arange(start, min(start + BLOCK, total)) for start in range(0, total, BLOCK))
        return np.concatenate([self.head.outputs(self.kind.values(split, rows)) for rows in blocks])

    def predict(self, judge: Judge, split: SnapshotSplit) -> Any:
        """Return what the judge makes of the outputs, as of a model's."""
        return judge.predictions(judge.keep(self.outputs(split), 0))


def _rows(split: SnapshotSplit) -> int:
    return len(next(iter(split.arrays.values())))
