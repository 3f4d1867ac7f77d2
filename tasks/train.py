"""train: examples to a model."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config import ModelConfig, TrainConfig
from tasks.stage import identities
from tasks.stage.stages import model_of_store, run_stage, verb


@verb
def train(examples: Snapshot, model: ModelConfig, config: TrainConfig, seed: int) -> Model:
    """A Keras model fitted on the train split, from its last checkpoint on if an earlier attempt left one.

    The order of examples, the initial weights and dropout are arithmetic in (seed, step): killed anywhere and run
    again, the weights are those of an unbroken run, bit for bit. Fails on a loss that is not finite.
    """
    from tasks.data.needs import check_task

    base = base_model(config, {"model": model, "train": config, "seed": seed}, examples)
    return run_stage(
        "train",
        Model,
        identities.model(examples, model, config, seed, base),
        work="tasks.training.fit:fit",
        arguments=(examples, model, config, seed, base),
        check=lambda: check_task(examples.manifest["features"], model.task, config),
        keep="state/ledger.jsonl",
    )


def base_model(config: TrainConfig, sections: dict[str, Any], examples: Snapshot) -> Model | None:
    """The model that `train.continue_from` names; `Refused` where going on from it would be another training."""
    from tasks.training.continuing import FIELD, check_base

    if config.continue_from is None:
        return None
    base = model_of_store(config.continue_from, FIELD)
    check_base(base, examples, sections)
    return base
