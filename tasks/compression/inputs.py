"""What a method that changes a file is given: the float forms of a model, and the data that it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.artifacts import Records, Snapshot
from tasks.evaluation.config import EvaluateConfig
from tasks.evaluation.judging import Judge, Kept, compare, contributions_of, limit, metric_of, run_model
from tasks.evaluation.splits import SnapshotSplit
from tasks.evaluation.tasks import make_judge
from tasks.exporting import LITERT, SAVED_MODEL
from tasks.exporting.formats.litert import LiteRT
from tasks.feed import open_snapshot
from tasks.models.features import TOKENS, Arrays, input_arrays
from tasks.models.forward import Call

BATCH, TOKENS_OF_BATCH = 32, 1024
"""Examples of a batch, and positions of one of texts, at most."""


@dataclass(frozen=True)
class MethodInputs:
    """The float forms of a model, and the data that it was trained on."""

    path: Callable[[str], Path]
    """From a format to the model's file or folder in it."""
    task: str
    loss: str
    """As in `train.loss`."""
    snapshot: Snapshot
    records: Records
    evaluate: EvaluateConfig
    max_quality_loss: float | None
    """`max_loss` of the quality gate; None for the default of the task."""

    @property
    def litert(self) -> Path:
        """The float LiteRT file."""
        return self.path(LITERT)

    @property
    def saved_model(self) -> Path:
        """The folder of the float SavedModel."""
        return self.path(SAVED_MODEL)

    def examples(self, split: str, most: int) -> Iterator[Arrays]:
        """Yield batches of a split's inputs by name: `most` examples at most, evenly spaced."""
        rows = input_arrays(self.snapshot.manifest["features"], open_snapshot(self.snapshot.path).arrays(split))
        chosen = evenly(len(rows), most)
        size = BATCH
        if TOKENS in (one := rows[:1]):
            size = max(1, TOKENS_OF_BATCH // one[TOKENS].shape[1])
        for start in range(0, len(chosen), size):
            yield rows[chosen[start : start + size]]

    def lost(self, split: str, call: Call) -> float:
        """Return how much of the primary metric a form of the model loses against the float file on a split."""
        judge, reference = self._references[split]
        return compare(self.task, judge, reference, run_model(judge, call, name=split).kept, self.evaluate).loss

    def limit(self, split: str) -> float:
        """Return how much of the primary metric a model may lose by the quality gate, of its value on a split."""
        judge, reference = self._references[split]
        name = self.evaluate.primary_of(self.task)[0]
        metric, before = metric_of(judge, name), contributions_of(judge, reference, self.evaluate)[name]
        return limit(self.task, metric, self.max_quality_loss, metric.of(before))

    @cached_property
    def _references(self) -> References:
        return References(self)


class References(dict[str, tuple[Judge, Kept]]):
    """What the float file answers on a split, computed on use."""

    def __init__(self, inputs: MethodInputs) -> None:
        super().__init__()
        self._inputs = inputs

    def __missing__(self, split: str) -> tuple[Judge, Kept]:
        inputs = self._inputs
        examples = SnapshotSplit(inputs.snapshot.path, inputs.records.path, split)
        judge = make_judge(inputs.task, examples, inputs.evaluate, inputs.loss)
        self[split] = judge, run_model(judge, LiteRT(inputs.litert, 1), name=split).kept
        return self[split]


def evenly(rows: int, most: int) -> npt.NDArray[np.int64]:
    """Return `most` rows at most, evenly spaced."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))
