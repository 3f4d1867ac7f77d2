"""train: examples to a model."""

from __future__ import annotations

from typing import Any

from tasks import identities
from tasks.artifacts import Model, Snapshot
from tasks.config import ModelConfig, TrainConfig, identity
from tasks.errors import Refused
from tasks.stage import model_of_store, run_stage, verb


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
    """The model that `train.extend` names; `Refused` where going on from it would be another training."""
    if config.extend is None:
        return None
    base = model_of_store(config.extend, "train.extend")
    if base.manifest["parents"]["snapshot"] != examples.digest:
        rule = "a training goes on with the snapshot it began with"
        raise Refused("train.extend", f"{base} was trained on another snapshot", rule, "leave train.extend out")
    ours, theirs = identity(sections), base.manifest["inputs"]["config"]
    free = {"steps", "stop", "select", "evaluate_every"}
    for section, ours_of, theirs_of in (
        ("model", ours["model"], theirs["model"]),
        ("seed", {"": ours["seed"]}, {"": theirs["seed"]}),
        ("train", ours["train"], theirs["train"]),
    ):
        for name in sorted(ours_of.keys() | theirs_of.keys()):
            if name not in free and ours_of.get(name) != theirs_of.get(name):
                rule = f"the model that is extended has {theirs_of.get(name)}"
                field = f"{section}.{name}".rstrip(".")
                raise Refused(field, ours_of.get(name), rule, "use the same, or leave train.extend out")
    if (config.steps or 0) <= base.manifest["steps"]:
        rule = f"must pass the {base.manifest['steps']} steps that the extended model has taken"
        raise Refused("train.steps", config.steps, rule, "raise it")
    return base
