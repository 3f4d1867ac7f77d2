"""The task train: snapshot to a model."""

from __future__ import annotations

from tasks.artifacts import Model, Records, Snapshot
from tasks.evaluation.config import EvaluateConfig
from tasks.models import ModelConfig
from tasks.processes.workbench import work
from tasks.runner import identities
from tasks.runner.stages import parent_of, run_stage, verb
from tasks.runner.starting_models import base_model, check_strategy, initial_model
from tasks.training.config import TrainConfig
from tasks.training.fit import fit
from tasks.training.seeds import choose, name_of, seed_of

LEDGER = "state/ledger.jsonl"


@verb
def train(examples: Snapshot, model: ModelConfig, config: TrainConfig, seed: int, evaluate: EvaluateConfig) -> Model:
    """Train a Keras model on the train split, from the last checkpoint of an earlier attempt if there is one.

    The order of examples, the initial weights and dropout are functions of (seed, step): after a kill at any moment the
    weights are bit-identical to those of an uninterrupted training.

    With `train.seeds` there are several trainings, each an artifact of its own, and one of their models, or the average
    of their weights, is chosen on the validation split.

    Raises:
        Failed: a loss is not finite.
    """
    if config.seeds == 1:
        return train_one(examples, model, config, seed, evaluate)
    trained = {
        name_of(number): train_one(examples, model, config.alone, seed_of(seed, number), evaluate, name_of(number))
        for number in range(config.seeds)
    }
    records = parent_of(examples, "records", Records)
    return run_stage(
        "train",
        Model,
        identities.choice(trained, examples, model, config, seed, evaluate),
        work(choose, list(trained.values()), examples, records, model, config, seed, evaluate),
    )


def train_one(
    examples: Snapshot,
    model: ModelConfig,
    config: TrainConfig,
    seed: int,
    evaluate: EvaluateConfig,
    name: str | None = None,
) -> Model:
    """Return the model of one training; of several the one of this name."""
    from tasks.feed.needs import check_training

    base = base_model(config, {"model": model, "train": config, "seed": seed}, examples, evaluate)
    start = initial_model(config)
    records = parent_of(examples, "records", Records)
    return run_stage(
        "train",
        Model,
        identities.model(examples, model, config, seed, base, start, evaluate),
        work(fit, examples, model, config, seed, base, start, records, evaluate, name),
        name=name,
        check=lambda: check_training(
            examples.manifest["features"], model.task, config.class_weights, config.augment, config.order
        ),
        prepare=lambda: check_strategy(config),
        keep=(LEDGER, f"ledger{'' if name is None else f'-{name}'}.jsonl"),
        roles=config.roles,
        restarts=config.restarts,
    )
