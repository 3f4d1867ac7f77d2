"""The work of a search in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Model, Records, Snapshot
    from tasks.config.train import TrainConfig
    from tasks.evaluation.config import EvaluateConfig
    from tasks.models import ModelConfig
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
    """Score a model of the store on the validation split (`judging.score`)."""
    from tasks.search import judging

    return judging.score(bench, trained, examples, model, config, seed, records, evaluate)
