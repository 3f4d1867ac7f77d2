"""The config of a trial: that of the tuning with other values of some keys."""

from __future__ import annotations

import copy
import re
from typing import Any

from pydantic import BaseModel

from tasks.config.base import OWN_CODE, Conflict, IsPath, identity
from tasks.config.compose import Config
from tasks.config.fine_tune import ChampionInit
from tasks.config.flags import put
from tasks.config.load import quoted, validate
from tasks.errors import Refused
from tasks.search.config import Values

SEARCHED = ("model", "train")
"""The sections after the snapshot, of which all trials are made."""

FIXED = {
    "model.task": "trials of different tasks cannot be compared",
    "train.seeds": "a trial is one training, of one seed",
}
"""Keys that are no part of a search, each with the reason."""

STARTS = ("train", "train.init", "train.init.kind")
"""Keys whose values may name another start of the training."""


def with_values(config: Config, values: Values) -> Config:
    """Return the config with these values and without `tune`; a new `kind` drops the fields that it does not have.

    Raises:
        Refused: it is not valid.
    """
    raw: dict[str, Any] = config.model_dump(mode="json", exclude={"tune"})
    for key in sorted(values, key=lambda key: (key.count("."), not key.endswith(".kind"))):
        put(raw, key.split("."), copy.deepcopy(values[key]), set(values), lambda line: None)
    if isinstance(train := raw["train"], dict) and not re.match(OWN_CODE, str(train.get("loss"))):
        train["folder"] = None  # it is that of another trial's loss
    return validate(raw)


def searched(config: Config) -> list[Config]:
    """Return the config with each of the choices of `tune.space`, and with the ends of each range."""
    assert config.tune is not None
    return [with_values(config, {key: value}) for key, space in config.tune.space.items() for value in space.examples]


def check_space(config: Config) -> None:
    """Raise `Conflict` where a key of `tune.space` is none that can be searched, or does not take one of its values."""
    assert config.tune is not None
    for key, space in config.tune.space.items():
        field = f"tune.space.{key}"
        section = key.partition(".")[0]
        if section not in SEARCHED and section in Config.model_fields:
            rule = "all trials are made of one snapshot, so that only model and train are searched"
            raise Conflict(field, key, rule, "run the flow once for each value, or leave it out")
        if key in FIXED:
            raise Conflict(field, key, FIXED[key], "leave it out")
        changed = [_with_value(config, field, key, value) for value in space.examples]
        if key in STARTS and any(isinstance(each.train.init, ChampionInit) for each in changed):
            rule = "the champion is looked up once, when a run begins, and not for each of its trials"
            raise Conflict(field, "champion", rule, "name its model by digest: {kind: model, model: DIGEST}")
        if missing := next(
            (each.train.loss for each in changed if each.train.own_loss and not each.train.folder), None
        ):
            rule = "is looked for in train.folder, which is the preset's where its own train.loss is one of yours"
            raise Conflict(field, missing, rule, "set train.loss to one of them")
        decided = [_deciding(each) for each in changed]
        if decided.count(decided[0]) == len(decided) > 1:
            rule = "changes no model by itself, only how, where or how fast it is trained"
            raise Conflict(field, key, rule, "leave it out")


def _with_value(config: Config, field: str, key: str, value: Any) -> Config:
    """Return the config with a value; raise `Conflict` where it is not valid."""
    try:
        return with_values(config, {key: value})
    except Refused as refused:
        where = field if refused.field == key else f"{field} ({quoted(value)}), {refused.field}"
        raise Conflict(where, refused.saw, refused.rule, refused.remedy) from None


def _deciding(config: Config) -> Any:
    """Return what of a config decides the model; of files and of a model in the store their names."""
    model, train, init = config.model, config.train, config.train.init
    paths = [_paths(section) for section in (model, train, init)]
    return identity(model), identity(train), paths, None if init is None else init.artifact


def _paths(section: BaseModel | None) -> list[Any]:
    """Return the values of a section that are paths."""
    fields = {} if section is None else type(section).model_fields
    return [
        getattr(section, name) for name, field in fields.items() if any(isinstance(m, IsPath) for m in field.metadata)
    ]
