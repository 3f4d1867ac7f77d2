"""The weights that a training begins with: those of a trained model, matched by the paths of variables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.environment.user_code import deciding, files_of
from tasks.errors import Failed, Refused
from tasks.models import ModelConfig
from tasks.models.usage import Usage
from tasks.training.checkpoints import pack, unpack
from tasks.training.config import TrainConfig
from tasks.training.engines import Arrays, Engine
from tasks.training.initial import FIELD, SEED, Init, InitConfig, Known
from tasks.training.optimizers import named

if TYPE_CHECKING:
    from tasks.artifacts import Model


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
    """Return path and SHA-256 of the module of `train.loss`, and of what it imports from its folder; and name and
    version of the packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    if config.own_loss is None:
        return []
    folder = Path(config.folder or ".")
    files = files_of("train.loss", config.own_loss, folder)
    return [(f"loss/{name}", value) for name, value in deciding(files, folder)]


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
