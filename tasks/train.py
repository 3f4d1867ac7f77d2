"""The task train: snapshot to a model."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config import ModelConfig, TrainConfig
from tasks.stage import identities
from tasks.stage.self_tests import check_strategy
from tasks.stage.stages import model_of_store, run_stage, verb


@verb
def train(examples: Snapshot, model: ModelConfig, config: TrainConfig, seed: int) -> Model:
    """Train a Keras model on the train split, from the last checkpoint of an earlier attempt if there is one.

    The order of examples, the initial weights and dropout are functions of (seed, step): after a kill at any moment the
    weights are bit-identical to those of an uninterrupted training.

    Raises:
        Failed: a loss is not finite.
    """
    from tasks.data.needs import check_training

    base = base_model(config, {"model": model, "train": config, "seed": seed}, examples)
    stored = None if config.init is None else config.init.artifact
    start = None if stored is None else model_of_store(stored, "train.init.model")
    return run_stage(
        "train",
        Model,
        identities.model(examples, model, config, seed, base, start),
        work="tasks.training.fit:fit",
        arguments=(examples, model, config, seed, base, start),
        check=lambda: check_training(examples.manifest["features"], model.task, config),
        prepare=lambda: check_strategy(config),
        keep="state/ledger.jsonl",
        roles=config.roles,
        restarts=config.restarts,
    )


def base_model(config: TrainConfig, sections: dict[str, Any], examples: Snapshot) -> Model | None:
    """Return the model of `train.continue_from`; raise `Refused` if the result would not equal one longer training."""
    from tasks.training.continuing import FIELD, check_base

    if config.continue_from is None:
        return None
    base = model_of_store(config.continue_from, FIELD)
    check_base(base, examples, sections)
    return base
