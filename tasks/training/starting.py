"""The weights that a training begins with: those of a trained model, matched by the paths of variables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.fine_tune import FileInit, Init, InitConfig, KerasHubInit
from tasks.config.train import TrainConfig
from tasks.environment.user_code import deciding, files_of
from tasks.errors import Failed, Refused
from tasks.models import ModelConfig
from tasks.models.usage import Usage
from tasks.training.checkpoints import pack, unpack
from tasks.training.engines import Arrays, Engine

if TYPE_CHECKING:
    import keras

    from tasks.artifacts import Model


def named(path: str, pattern: str) -> bool:
    """Return whether a variable is of a layer that a pattern names, by its path: `block_0/attention/query/kernel`.

    A pattern names a layer by its path, by that of a layer around it, or by the name of one of them alone.
    """
    *names, _ = path.split("/")
    paths = ["/".join(names[:length]) for length in range(1, len(names) + 1)]
    return any(fnmatchcase(each, pattern) for each in (*paths, *names))


FIELD = "train.init"


def init_files(config: InitConfig | None) -> list[tuple[str, str]]:
    """Return the names and content hashes of the files with initial weights, for the digest."""
    if config is None or config.place is None or not config.is_path:
        return []
    path = Path(config.place[1])
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return [(f"init/{each.relative_to(path.parent).as_posix()}", _sha256(each)) for each in files if each.exists()]


def check_init(config: InitConfig | None) -> None:
    """Raise `Refused` where a file or folder with initial weights is not there."""
    if config is None or config.place is None or config.may_be_absent:
        return
    name, path = config.place
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

SEED = "seed_generator_state"
"""The end of the path of a dropout's state, which is no weight."""

Read = Callable[[Any, "keras.Model", Path | None], dict[str, NDArray[Any]]]
"""Returns weights by the paths of their variables: of a config, for this model, of the folder of a stored model."""


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
    files = [] if config.init is None or config.init.place is None else [config.init.place[1]]
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
    known = READERS[config.kind](config, model, None if start is None else start.path)
    taken = match({variable.path: variable.shape for variable in model.variables}, known, config)
    values = (taken.get(variable.path, variable.numpy()) for variable in model.variables)
    return {f"model/{number:05d}": value for number, value in enumerate(values)}


def match(
    shapes: Mapping[str, Sequence[int]], known: Mapping[str, NDArray[Any]], config: Init
) -> dict[str, NDArray[Any]]:
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


def of_model(config: Init, model: keras.Model, folder: Path | None) -> dict[str, NDArray[Any]]:
    """Return the weights of a model in the store."""
    from tasks.models import keras_file

    assert folder is not None
    return by_path(keras_file.load(folder))


def of_file(config: FileInit, model: keras.Model, folder: Path | None) -> dict[str, NDArray[Any]]:
    """Return the weights of a file that Keras saved."""
    from tasks.models import keras_archive

    path, field = Path(config.path), f"{FIELD}.path"
    try:
        if path.suffix == ".h5":
            keras_archive.load_weights(model, path, field, keras_archive.size_of(model))
            return by_path(model)
        return by_path(keras_archive.load(path, field))
    except Refused as refused:  # of a training that has begun
        raise Failed(refused.field, refused.saw, refused.rule, refused.remedy) from None


def of_keras_hub(config: KerasHubInit, model: keras.Model, folder: Path | None) -> dict[str, NDArray[Any]]:
    """Return the weights of a backbone of KerasHub."""
    try:
        import keras_hub
    except ImportError as error:
        remedy = "install the extra hub: pip install 'millrace[hub]'"
        raise Failed(f"{FIELD}.kind", "keras_hub", "needs the package keras-hub", remedy) from error
    try:
        return by_path(keras_hub.models.Backbone.from_preset(config.preset))
    except Exception as error:
        raise unreadable("preset", config.preset, error) from error


READERS: dict[str, Read] = {"model": of_model, "file": of_file, "keras_hub": of_keras_hub}
"""The function of each kind; a champion has become a model before (`flows.champions`)."""


def by_path(model: keras.Model) -> dict[str, NDArray[Any]]:
    """Return the weights of a model by the paths of their variables."""
    return {variable.path: np.asarray(variable) for variable in model.variables if not variable.path.endswith(SEED)}


def unreadable(field: str, saw: str, error: Exception) -> Failed:
    """Return the error of a source of weights that cannot be read."""
    message = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return Failed(f"{FIELD}.{field}", f"{saw}: {message}", "its weights are read by Keras", "use one that fits")


def _renamed(path: str, rename: Mapping[str, str]) -> str:
    """Return the path in the other model, by the longest of the beginnings that a path has."""
    own = max((beginning for beginning in rename if path.startswith(beginning)), key=len, default="")
    return rename.get(own, "") + path.removeprefix(own)


def _some(names: Any, most: int = 4) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
