"""The work of training in a compute process: light to import, so that verbs hand these functions over.

What a function needs is imported where it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Model, Outcome, Records, Snapshot
    from tasks.config.snapshot import SnapshotConfig
    from tasks.config.sources import SourceConfig
    from tasks.config.strategy import StrategyConfig
    from tasks.config.train import Precision, TrainConfig
    from tasks.evaluation.config import EvaluateConfig
    from tasks.models import ModelConfig
    from tasks.processes.workbench import Workbench
    from tasks.training.ceilings import Ceiling, Trained


def fit(
    bench: Workbench,
    name: str | None,
    examples: Snapshot,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    base: Model | None,
    start: Model | None,
    records: Records | None,
    evaluate: EvaluateConfig | None,
) -> Outcome | None:
    """Train a model (`fit.fit`); of one of several trainings, points of the curves are under its name."""
    from tasks.training import fit as fitting

    return fitting.fit(bench, examples, model, config, seed, base, start, records, evaluate, name)


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


def train_small_network(bench: Workbench, precision: Precision) -> Trained:
    """Train a small network, whose bits and speed tell of the device (`ceilings.train`)."""
    from tasks.training import ceilings

    return ceilings.train(bench, precision)


def measure_ceilings(
    bench: Workbench,
    source: SourceConfig,
    layout: SnapshotConfig,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    records: Records,
    examples: Snapshot,
    memory: Path,
) -> list[Ceiling]:
    """Measure how fast each part of the data's way is (`ceilings.measure`)."""
    from tasks.training import ceilings

    return ceilings.measure(bench, source, layout, model, config, seed, records, examples, memory)
