"""The primary metric of evaluations, the best weights by it, and early stopping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import Records, Snapshot
from tasks.evaluation.config import EvaluateConfig
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Batches, Scorer

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
        from tasks.evaluation.splits import SnapshotSplit
        from tasks.evaluation.tasks import make_judge

        split = SnapshotSplit(examples.path, self.records.path, SPLIT)
        loss = None if train.own_loss is not None else train.loss
        judge = make_judge(task, split, self.config, loss)
        return Primary(self.config.primary_of(task)[0], judge, self.config)


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


@dataclass
class BestWeights:
    """The best scores so far, the weights of `select: best`, and the evaluations without improvement."""

    config: TrainConfig
    watched: tuple[str, bool] = ("loss", False)
    """The name of the score that stands for the primary metric, and whether higher is better."""

    selected: list[float] = field(default_factory=list)
    """The best score so far by which weights are selected, and the loss there; lower is better, and never a NaN; empty
    before the first."""
    awaited: list[float] = field(default_factory=list)
    """The best score of `train.early_stopping` so far, as a list of at most one; lower is better."""
    waited: int = 0
    """Evaluations since `awaited` improved by more than `train.early_stopping.delta`."""
    weights: Arrays = field(default_factory=dict)
    """The weights at the best score, as `best/<name>`; empty unless `train.select` is best."""

    def update(self, scores: dict[str, float], weights: Callable[[], Arrays]) -> bool:
        """Take the scores of an evaluation by name, of these weights; return whether training should end."""
        name, higher_is_better = self.watched
        loss, primary = scores["loss"], -scores[name] if higher_is_better else scores[name]
        if self.config.select == "best" and _better([primary, loss], self.selected):
            self.selected = [primary, loss]
            self.weights = {f"best/{name}": values for name, values in weights().items()}
        stopping = self.config.early_stopping
        if stopping is None:
            return False
        value = primary if stopping.metric == "primary" else loss
        if _better([value], self.awaited, stopping.delta):
            self.awaited, self.waited = [value], 0
        else:
            self.waited += 1
        return self.waited >= stopping.patience

    def best(self) -> Arrays:
        """Return the selected weights by the engine's names; empty where the last ones are used."""
        return {name.removeprefix("best/"): values for name, values in self.weights.items()}

    def state(self) -> dict[str, Any]:
        """Return the state without weights, for a checkpoint."""
        return {"selected": self.selected, "awaited": self.awaited, "waited": self.waited}

    def copy(self) -> tuple[dict[str, Any], Arrays]:
        """Return state and weights as they are now, which later evaluations do not change."""
        return {**self.state(), "selected": [*self.selected], "awaited": [*self.awaited]}, dict(self.weights)

    def load(self, state: dict[str, Any], weights: Arrays) -> None:
        """Restore the state of a checkpoint, as far as this config selects or ends by it: a base may have others."""
        selects, ends = self.config.select == "best", self.config.early_stopping is not None
        self.selected, self.weights = (state["selected"], weights) if selects else ([], {})
        self.awaited, self.waited = (state["awaited"], state["waited"]) if ends else ([], 0)


def _better(values: list[float], best: list[float], delta: float = 0.0) -> bool:
    """Return whether finite values are below the best so far, the first by more than `delta`, or are the first ones; of
    equal ones the next decide."""
    return all(map(isfinite, values)) and (not best or [values[0] + delta, *values[1:]] < best)
