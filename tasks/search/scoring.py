"""The score of a model of the store on the validation split, where no curve of its training is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.artifacts import Model, Records, Snapshot
from tasks.config.evaluate import EvaluateConfig
from tasks.config.train import TrainConfig
from tasks.feed import open_snapshot
from tasks.models import ModelConfig

if TYPE_CHECKING:
    from tasks.processes.workbench import Workbench


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
    from tasks.training import engines
    from tasks.training.fit import validation
    from tasks.training.primary import Judged, evaluated

    snapshot = open_snapshot(examples.path)
    scorer = engines.scorer(config, model, snapshot, seed)
    variables = keras_file.load(trained.path).variables
    scorer.load({f"model/{number:05d}": variable.numpy() for number, variable in enumerate(variables)})
    primary = Judged(records, evaluate).primary(examples, model.task, config)
    return evaluated(scorer, validation(snapshot), primary)
