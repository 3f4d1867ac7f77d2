"""Continuing a finished training: allowed where the result is bit-identical to that of one longer training."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config.base import identity
from tasks.errors import Refused
from tasks.feed.orders import steps_of
from tasks.training.config import TrainConfig
from tasks.training.seeds import choice_of

FIELD = "train.continue_from"
RETRAIN = f"train a new model, without {FIELD}"
MAY_DIFFER = {"steps", "epochs", "select", "early_stopping", "evaluate_every"}
"""Settings of `train` that may differ from the base's; `check_base` checks some of them in another way."""


def check_base(base: Model, examples: Snapshot, sections: dict[str, Any], inputs: dict[str, Any]) -> None:
    """Check that continuing `base` gives the model of an uninterrupted training with the config `sections`.

    Everything that decides a step must be equal: model, seed, snapshot, batch size, loss, optimizer, learning rate, the
    user's files, the model of `train.init`, our code and its libraries. The schedule must be constant, as others depend
    on the last step. Every step of the base must have had a full batch, which the last one of a training by epochs had
    only if the batch size divides its examples. The state of `select: best` and early stopping must be known from the
    base.

    Args:
        inputs: those of the digest of a training with this config that begins anew.

    Raises:
        Refused: one of these is not true.
    """
    if choice_of(base) is not None:
        rule = "a choice among models of several seeds has no state of a training"
        raise Refused(FIELD, base.digest[:12], rule, f"name the model of one seed; `millrace show {base.digest[:12]}`")
    if base.trained_by is None or "model" not in base.trained_by:
        rule = "a model that a method of compression has made is no training with a config of its own"
        raise Refused(FIELD, base.digest[:12], rule, "begin with its weights: train.init {kind: model, model: DIGEST}")
    config: TrainConfig = sections["train"]
    base_config, done_steps, count = (
        base.manifest["inputs"]["config"],
        base.manifest["steps"],
        examples.manifest["counts"]["train"],
    )
    if base.manifest["parents"]["snapshot"] != examples.digest:
        raise _refused(f"{base} was trained on another snapshot", "a training goes on with the snapshot it began with")
    _check_equal(identity(sections), base_config)
    _check_files_and_code(inputs, base.manifest["inputs"])
    if config.schedule.depends_on_the_end:
        rule = "its rates depend on the last step, so that a longer training has others from the start"
        raise Refused("train.schedule.kind", config.schedule.kind, rule, f"use constant in both, or {RETRAIN}")
    planned = config.steps if config.steps is not None else steps_of(config.epochs or 0, count, config.batch_size)
    if planned <= done_steps:
        field = "train.steps" if config.epochs is None else "train.epochs"
        requested = config.steps if config.epochs is None else config.epochs
        raise Refused(field, requested, f"must pass the {done_steps} steps that the model has taken", "raise it")
    epochs = base_config["train"]["epochs"]
    fed = config.batch_size if epochs is None else epochs * count - (done_steps - 1) * config.batch_size
    if fed < config.batch_size:
        saw = f"the last step of its {epochs} epochs was fed {fed} of {config.batch_size} examples"
        raise _refused(saw, "a longer training feeds that step whole")
    _check_evaluations(config, base_config["train"], done_steps, count)


def _check_equal(own: dict[str, Any], base_config: dict[str, Any]) -> None:
    """Raise `Refused` for the first setting that decides the result and differs."""
    for section in ("model", "seed", "train"):
        own_section, other = own[section], base_config[section]
        if not isinstance(own_section, dict):
            own_section, other = {"": own_section}, {"": other}
        for name in sorted(own_section.keys() | other.keys()):
            if name not in MAY_DIFFER and own_section.get(name) != other.get(name):
                field, rule = f"{section}.{name}".rstrip("."), f"the model that is continued has {other.get(name)}"
                raise Refused(field, own_section.get(name), rule, f"use the same, or {RETRAIN}")


def _check_files_and_code(own: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise `Refused` where the first weights, a file of the user's, our code or a library of it is another one."""
    if (start := own["parents"].get("init")) != (began := other["parents"].get("init")):
        rule = f"the model that is continued began with {began[:12] if began else 'no model'}"
        raise Refused("train.init.model", start[:12] if start else "none", rule, f"use the same, or {RETRAIN}")
    for what, now, before in (
        ("the file", dict(own["sources"]), dict(other["sources"])),
        ("the version of", own["code"]["libraries"], other["code"]["libraries"]),
        ("the version of", {"our code": own["code"]["version"]}, {"our code": other["code"]["version"]}),
    ):
        changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
        if changed:
            saw = f"{what} {changed[0]} has changed since the model was trained that is continued"
            raise _refused(saw, "a longer training has the same one from its first step")


def _check_evaluations(config: TrainConfig, base_config: dict[str, Any], done_steps: int, count: int) -> None:
    """Raise `Refused` where `select` or early stopping depends on evaluations that the base did not make."""
    own = identity(config)
    for name in ("select", "early_stopping"):
        if own.get(name) is not None and own[name] != base_config.get(name):
            rule = f"the model that is continued has {base_config.get(name)}, and remembers no evaluations for it"
            raise Refused(f"train.{name}", own[name], rule, f"leave it out, or {RETRAIN}")
    if "evaluate_every" not in own:
        return
    if own["evaluate_every"] != base_config.get("evaluate_every"):
        rule = f"the model that is continued was evaluated every {base_config.get('evaluate_every')} steps"
        raise Refused("train.evaluate_every", own["evaluate_every"], rule, f"use the same, or {RETRAIN}")
    planned = (
        base_config["steps"]
        if base_config["steps"] is not None
        else steps_of(base_config["epochs"], count, config.batch_size)
    )
    if done_steps < planned and config.early_stopping is not None:
        saw = f"its training was ended by train.early_stopping at step {done_steps}"
        raise _refused(saw, "a longer training would have ended there too")
    if done_steps % config.evaluate_every:
        saw = f"its last evaluation was at step {done_steps}, no multiple of {config.evaluate_every}"
        raise _refused(saw, "a longer training is not evaluated there")


def _refused(saw: str, rule: str) -> Refused:
    return Refused(FIELD, saw, rule, RETRAIN)
