"""Going on from a finished model: allowed where the result is, bit for bit, that of one longer training."""

from __future__ import annotations

from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config import TrainConfig, identity
from tasks.data.order import steps_of
from tasks.errors import Refused

FIELD = "train.continue_from"
ALONE = f"train it anew, without {FIELD}"
FREE = {"steps", "epochs", "select", "early_stopping", "evaluate_every"}
"""Settings of the base's training that may differ, as far as `check_base` says."""


def check_base(base: Model, examples: Snapshot, sections: dict[str, Any]) -> None:
    """Raise `Refused` where going on from `base` would give another model than an unbroken training of `sections`.

    Everything that decides a step must be equal: model, seed, snapshot, batch, loss, optimizer, learning rate. On top
    of that the schedule must not depend on the last step; every step of the base must have been fed whole, which the
    last one of a training by epochs was only if the batch divides its examples; and what `select: best` and early
    stopping remember of the earlier evaluations must be known from the base.
    """
    config: TrainConfig = sections["train"]
    theirs, done, count = (
        base.manifest["inputs"]["config"],
        base.manifest["steps"],
        examples.manifest["counts"]["train"],
    )
    if base.manifest["parents"]["snapshot"] != examples.digest:
        raise _refused(f"{base} was trained on another snapshot", "a training goes on with the snapshot it began with")
    _same(identity(sections), theirs)
    if config.schedule.kind != "constant":
        rule = "its rates depend on the last step, so that a longer training has others from the start"
        raise Refused("train.schedule.kind", config.schedule.kind, rule, f"use constant in both, or {ALONE}")
    planned = config.steps if config.steps is not None else steps_of(config.epochs or 0, count, config.batch_size)
    if planned <= done:
        field = "train.steps" if config.epochs is None else "train.epochs"
        asked = config.steps if config.epochs is None else config.epochs
        raise Refused(field, asked, f"must pass the {done} steps that the model has taken", "raise it")
    epochs = theirs["train"]["epochs"]
    fed = config.batch_size if epochs is None else epochs * count - (done - 1) * config.batch_size
    if fed < config.batch_size:
        saw = f"the last step of its {epochs} epochs was fed {fed} of {config.batch_size} examples"
        raise _refused(saw, "a longer training feeds that step whole")
    _remembered(config, theirs["train"], done, count)


def _same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise `Refused` for the first setting that decides the arithmetic and differs."""
    for section in ("model", "seed", "train"):
        mine, other = ours[section], theirs[section]
        if not isinstance(mine, dict):
            mine, other = {"": mine}, {"": other}
        for name in sorted(mine.keys() | other.keys()):
            if name not in FREE and mine.get(name) != other.get(name):
                field, rule = f"{section}.{name}".rstrip("."), f"the model that is continued has {other.get(name)}"
                raise Refused(field, mine.get(name), rule, f"use the same, or {ALONE}")


def _remembered(config: TrainConfig, theirs: dict[str, Any], done: int, count: int) -> None:
    """Raise `Refused` where the choice of weights or the end depends on evaluations that the base does not know."""
    ours = identity(config)
    for name in ("select", "early_stopping"):
        if ours.get(name) is not None and ours[name] != theirs.get(name):
            rule = f"the model that is continued has {theirs.get(name)}, and remembers no evaluations for it"
            raise Refused(f"train.{name}", ours[name], rule, f"leave it out, or {ALONE}")
    if "evaluate_every" not in ours:
        return
    if ours["evaluate_every"] != theirs.get("evaluate_every"):
        rule = f"the model that is continued was evaluated every {theirs.get('evaluate_every')} steps"
        raise Refused("train.evaluate_every", ours["evaluate_every"], rule, f"use the same, or {ALONE}")
    planned = theirs["steps"] if theirs["steps"] is not None else steps_of(theirs["epochs"], count, config.batch_size)
    if done < planned and config.early_stopping is not None:
        saw = f"its training was ended by train.early_stopping at step {done}"
        raise _refused(saw, "a longer training would have ended there too")
    if done % config.evaluate_every:
        saw = f"its last evaluation was at step {done}, no multiple of {config.evaluate_every}"
        raise _refused(saw, "a longer training is not evaluated there")


def _refused(saw: str, rule: str) -> Refused:
    return Refused(FIELD, saw, rule, ALONE)
