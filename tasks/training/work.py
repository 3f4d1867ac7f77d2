"""The work of training in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Snapshot
    from tasks.evaluation.config import EvaluateConfig
    from tasks.models import ModelConfig
    from tasks.processes.workbench import Workbench
    from tasks.training.config import Precision, TrainConfig
    from tasks.training.strategies import StrategyConfig


def choose(
    bench: Workbench,
    trained: Sequence[Model],
    examples: Snapshot,
    records: Records,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    evaluate: EvaluateConfig,
) -> Outcome:
    """Choose among the models of several seeds (`choosing.choose`)."""
    from tasks.training import choosing

    return choosing.choose(bench, trained, examples, records, model, config, seed, evaluate)


def test_strategy(bench: Workbench, strategy: StrategyConfig, precision: Precision) -> dict[str, float]:
    """Test the arithmetic of a strategy (`engines.tensorflow.self_test.run`)."""
    from tasks.training.engines.tensorflow import self_test

    return self_test.run(bench, strategy, precision)
