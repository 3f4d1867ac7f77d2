"""What a trial is worth, and when it ends early."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.artifacts import Model, Records, Snapshot
from tasks.evaluation.config import EvaluateConfig
from tasks.feed import open_snapshot
from tasks.models import ModelConfig
from tasks.search.study import Study
from tasks.store.journal import read
from tasks.training.config import TrainConfig

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


@dataclass
class TrialMonitor:
    """Reports the evaluations of a trial to the study, one after the other, until one of them ends the trial.

    Whether it does is a function of the evaluations and of the other trials alone: not of when this is called.
    """

    study: Study
    number: int
    metric: str
    """The name of the score on the validation split."""
    config: TrainConfig
    steps: int
    """The steps of a training that does not end early; an evaluation there ends no trial."""
    offsets: dict[Path, int] = field(default_factory=dict)
    """Bytes that are read, by journal."""
    step: int = 0
    """The step of the last evaluation."""
    pruned: bool = False
    """Whether the trial has ended early, at `step`."""
    score: float | None = None
    """The score of the weights that the training would select by now."""
    loss: float = float("inf")
    """The validation loss of these weights."""

    def take(self, journal: Path) -> bool:
        """Take the new evaluations of a journal; return whether the trial should end."""
        for point in read(journal, self.offsets.get(journal, 0)):
            if self.pruned:
                break
            self.offsets[journal] = point.end
            if point.step <= self.step or f"validation/{self.metric}" not in point.metrics:
                continue
            self.add(point.step, point.metrics[f"validation/{self.metric}"], point.metrics["validation/loss"])
        return self.pruned

    def add(self, step: int, score: float, loss: float) -> None:
        """Take an evaluation."""
        self.step = step
        if self.config.select == "last" or self.score is None or loss < self.loss:
            self.score, self.loss = score, loss
        self.study.report(self.number, step, score)
        self.pruned = step < self.steps and self.study.prunes(self.number, step)


def score(
    bench: Workbench,
    trained: Model,
    examples: Snapshot,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    records: Records,
    evaluate: EvaluateConfig,
) -> dict[str, float]:
    """Return the scores of a trained model on the validation split by name, as an evaluation of its training does."""
    from tasks.models import keras_file
    from tasks.training.fit import make_scorer, validation
    from tasks.training.primary import Judged, evaluated

    snapshot = open_snapshot(examples.path)
    scorer = make_scorer(config, model, snapshot, seed)
    variables = keras_file.load(trained.path).variables
    scorer.load({f"model/{number:05d}": variable.numpy() for number, variable in enumerate(variables)})
    primary = Judged(records, evaluate).primary(examples, model.task, config)
    return evaluated(scorer, validation(snapshot), primary)
