"""The primary metric on the validation split at the evaluations of a training, where it is no mean over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Records, Snapshot
from tasks.config.evaluate import EvaluateConfig
from tasks.config.train import TrainConfig
from tasks.training.engines import Arrays, Batches, Keep

if TYPE_CHECKING:
    from tasks.evaluation.judging import Judge

SPLIT = "validation"


class Judged(NamedTuple):
    """What evaluations of a training are decided by."""

    records: Records
    """Those of the snapshot."""
    config: EvaluateConfig

    def watched(self, task: str, train: TrainConfig) -> tuple[str, bool]:
        """Return the name of the score that stands for the primary metric, and whether higher is better."""
        score = self.config.score_of(task, train.own_loss is not None)
        return self.config.primary_of(task) if score is None else (score, score == "accuracy")

    def primary(self, examples: Snapshot, task: str, train: TrainConfig) -> Primary | None:
        """Return the primary metric as one of the outputs; None where a mean of the evaluations stands for it."""
        if self.config.score_of(task, train.own_loss is not None) is not None:
            return None
        from tasks.evaluation.judging import make_judge
        from tasks.evaluation.splits import SnapshotSplit

        split = SnapshotSplit(examples.path, self.records.path, SPLIT)
        loss = None if train.own_loss is not None else train.loss
        judge = make_judge(task, split, self.config, loss)
        return Primary(self.config.primary_of(task)[0], judge, self.config)


class Scorer(Protocol):
    """An engine, or what scores its weights in another process."""

    def score(self, batches: Batches) -> dict[str, float]:
        """Return means over batches by name."""
        ...

    def outputs(self, batches: Batches, keep: Keep) -> tuple[dict[str, float], Arrays]:
        """Return the same means, and what is kept of the outputs."""
        ...


@dataclass(frozen=True)
class Primary:
    """A metric of the outputs for all rows, computed as a report does it."""

    name: str
    judge: Judge
    config: EvaluateConfig

    def keep(self, outputs: NDArray[np.float32], start: int) -> Arrays:
        """Keep what the metric needs of a batch; the rows that fill the last one up are 0."""
        real = min(len(outputs), len(self.judge.inputs) - start)
        kept = self.judge.keep(outputs[:real], start)
        missing = len(outputs) - real
        return {
            name: np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
            for name, array in kept.items()
        }

    def value(self, kept: Arrays) -> float:
        """Return the metric of what was kept for all rows; NaN where an output is not finite."""
        from tasks.evaluation.judging import contributions_of, metric_of

        of_rows = {name: array[: len(self.judge.inputs)] for name, array in kept.items()}
        if not all(np.isfinite(array).all() for array in of_rows.values()):
            return float("nan")
        contributions = contributions_of(self.judge, of_rows, self.config).get(self.name)
        return float("nan") if contributions is None else metric_of(self.judge, self.name).of(contributions)


def evaluated(scorer: Scorer, batches: Batches, primary: Primary | None) -> dict[str, float]:
    """Return the scores of an evaluation by name, with the primary metric where it is one of the outputs."""
    if primary is None:
        return scorer.score(batches)
    scores, kept = scorer.outputs(batches, primary.keep)
    return {**scores, primary.name: primary.value(kept)}
