"""What a training begins from: weights of a trained model, matched by the paths of variables, or a finished training.

Continuing a finished one is allowed where the result is bit-identical to that of one longer training.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any

from tasks.artifacts import Model, Snapshot
from tasks.config.base import identity
from tasks.environment.user_code import deciding, files_of
from tasks.errors import Failed, Refused
from tasks.feed.orders import steps_of
from tasks.models import ModelConfig
from tasks.models.usage import Usage
from tasks.training.checkpoints import pack, unpack
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Engine
from tasks.training.initial import FIELD, SEED, Init, InitConfig, Known
from tasks.training.optimizers import named
from tasks.training.seeds import choice_of


def init_files(config: InitConfig | None) -> list[tuple[str, str]]:
    """Return the names and content hashes of the files with initial weights, for the digest."""
    if config is None or config.origin is None or not config.is_path:
        return []
    path = Path(config.origin[1])
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return [(f"init/{each.relative_to(path.parent).as_posix()}", _sha256(each)) for each in files if each.exists()]


def check_init(config: InitConfig | None) -> None:
    """Raise `Refused` where a file or folder with initial weights is not there."""
    if config is None or config.origin is None or config.may_be_absent:
        return
    name, path = config.origin
    if not config.is_path or not Path(path).exists():
        can_download = "download" in type(config).model_fields
        rule = f"no such file or folder{', and nothing is downloaded unasked' if can_download else ''}"
        remedy = f"correct it{f', as in ./folder, or set {FIELD}.download to true' if can_download else ''}"
        raise Refused(f"{FIELD}.{name}", path, rule, remedy)


def loss_files(config: TrainConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of the modules of own losses, and of what they import from their folder; and name and
    version of the packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    folder, files = Path(config.folder or "."), dict[str, bytes]()
    for setting, function in config.own_losses:
        files |= files_of(setting, function, folder)
    return [(f"loss/{name}", value) for name, value in deciding(dict(sorted(files.items())), folder)]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


log = logging.getLogger(__name__)


def begin(
    engine: Engine,
    config: InitConfig,
    start: Model | None,
    model_config: ModelConfig,
    features: dict[str, Any],
    seed: int,
) -> None:
    """Give an engine its initial weights (see `initial_weights`), which the chief reads and sends to the others."""
    content = None
    if engine.group.cluster.rank == 0:
        content = pack(0, {}, initial_weights(config, start, model_config, features, seed))
    _, _, weights = unpack(engine.group.share(content))
    engine.begin_with(weights)


def usage_before(
    config: TrainConfig, model_config: ModelConfig, base: Model | None, start: Model | None
) -> list[Usage]:
    """Return what the models have used that a training begins from or learns from.

    Args:
        base: the model that is continued.
        start: the model in the store whose weights it begins with.
    """
    folders = [model.path for model in (base, start) if model is not None]
    folders += [] if model_config.learns_from is None else [model_config.learns_from]
    files = [] if config.init is None or config.init.origin is None else [config.init.origin[1]]
    files += [] if model_config.weights_file is None else [model_config.weights_file]
    return [*map(Usage.of_model, folders), *map(Usage.of_weights, files)]


def initial_weights(
    config: InitConfig, start: Model | None, model_config: ModelConfig, features: dict[str, Any], seed: int
) -> Arrays:
    """Return the weights that a training begins with, by `model/<number>` in the order of the model's variables.

    Args:
        start: the model in the store, where `train.init` names one.
        features: the snapshot's.

    Raises:
        Failed: a variable has no counterpart of its shape and its layer is not named in `train.init.new`; or the
            source cannot be read.
    """

    model = model_config.build(features, seed)
    known = config.weights(model, None if start is None else start.path)
    taken = match({variable.path: variable.shape for variable in model.variables}, known, config)
    values = (taken.get(variable.path, variable.numpy()) for variable in model.variables)
    return {f"model/{number:05d}": value for number, value in enumerate(values)}


def match(shapes: Mapping[str, Sequence[int]], known: Known, config: Init) -> Known:
    """Return the known weights by the paths of a model's variables; log what begins anew and what is not used."""
    weights = {path: tuple(shape) for path, shape in shapes.items() if not path.endswith(SEED)}
    new = {path for path in weights if any(named(path, pattern) for pattern in config.new)}
    for pattern in config.new:
        if not any(named(path, pattern) for path in weights):
            raise Failed(f"{FIELD}.new", pattern, "names no layer of the model", f"use one of {_some(weights)}")
    for beginning in config.rename:
        if not any(path.startswith(beginning) for path in weights):
            raise Failed(f"{FIELD}.rename", beginning, "begins no path of the model", f"use one of {_some(weights)}")
    origin = {path: _renamed(path, config.rename) for path in weights if path not in new}
    wrong = [
        f"{path} ({'no ' + other if other not in known else f'{list(known[other].shape)}, not {list(weights[path])}'})"
        for path, other in origin.items()
        if other not in known or known[other].shape != weights[path]
    ]
    if wrong:
        rule = "every variable begins with weights of its path and shape"
        remedy = f"name its layer in {FIELD}.new, or map its path by {FIELD}.rename; there are {_some(known)}"
        raise Failed(FIELD, f"no weights for {_some(wrong)}", rule, remedy)
    unused = sorted(set(known) - set(origin.values()))
    log.info(
        "%d variables begin with trained weights%s%s",
        len(origin),
        f"; new: {_some(sorted(new))}" if new else "",
        f"; not used: {_some(unused)}" if unused else "",
    )
    return {path: known[other] for path, other in origin.items()}


def _renamed(path: str, rename: Mapping[str, str]) -> str:
    """Return the path in the other model, by the longest of the beginnings that a path has."""
    own = max((beginning for beginning in rename if path.startswith(beginning)), key=len, default="")
    return rename.get(own, "") + path.removeprefix(own)


def _some(names: Any, most: int = 4) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


CONTINUED = "train.continue_from"
RETRAIN = f"train a new model, without {CONTINUED}"
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
        raise Refused(
            CONTINUED, base.digest[:12], rule, f"name the model of one seed; `millrace show {base.digest[:12]}`"
        )
    if base.trained_by is None or "model" not in base.trained_by:
        rule = "a model that a method of compression has made is no training with a config of its own"
        raise Refused(
            CONTINUED, base.digest[:12], rule, "begin with its weights: train.init {kind: model, model: DIGEST}"
        )
    config: TrainConfig = sections["train"]
    base_config, done_steps = base.manifest["inputs"]["config"], base.manifest["steps"]
    count = examples.manifest["counts"]["train"]
    if base.manifest["parents"]["snapshot"] != examples.digest:
        raise _refused(f"{base} was trained on another snapshot", "a training goes on with the snapshot it began with")
    _check_equal(identity(sections), base_config)
    _check_files_and_code(inputs, base.manifest["inputs"])
    if config.schedule.depends_on_the_end:
        rule = "its rates depend on the last step, so that a longer training has others from the start"
        raise Refused("train.schedule.kind", config.schedule.kind, rule, f"use constant in both, or {RETRAIN}")
    if config.planned(count) <= done_steps:
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
    planned = base_config["steps"] or steps_of(base_config["epochs"], count, config.batch_size)
    if done_steps < planned and config.early_stopping is not None:
        saw = f"its training was ended by train.early_stopping at step {done_steps}"
        raise _refused(saw, "a longer training would have ended there too")
    if done_steps % config.evaluate_every:
        saw = f"its last evaluation was at step {done_steps}, no multiple of {config.evaluate_every}"
        raise _refused(saw, "a longer training is not evaluated there")


def _refused(saw: str, rule: str) -> Refused:
    return Refused(CONTINUED, saw, rule, RETRAIN)
