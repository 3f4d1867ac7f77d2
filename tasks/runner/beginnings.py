"""The models of the store that a training goes on with, or takes its first weights from."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config.evaluate import EvaluateConfig
from tasks.config.train import TrainConfig
from tasks.runner import identities
from tasks.runner.stages import model_of_store


def base_model(
    config: TrainConfig, sections: dict[str, Any], examples: Snapshot, evaluate: EvaluateConfig | None = None
) -> Model | None:
    """Return the model of `train.continue_from`; raise `Refused` if the result would not equal one longer training."""
    from tasks.training.continuing import check_base

    base = continued_model(config)
    if base is not None:
        begun = (config, sections["seed"], None, initial_model(config), evaluate)
        anew = identities.model(examples, sections["model"], *begun)
        check_base(base, examples, sections, anew.inputs(Model))
    return base


def continued_model(config: TrainConfig) -> Model | None:
    """Return the model of `train.continue_from`, unchecked."""
    return None if config.continue_from is None else model_of_store(config.continue_from, "train.continue_from")


def initial_model(config: TrainConfig) -> Model | None:
    """Return the model of the store whose weights `train.init` takes."""
    stored = None if config.init is None else config.init.artifact
    return None if stored is None else model_of_store(stored, "train.init.model")
