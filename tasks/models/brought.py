"""The files of a model that the user has brought: what decides it, and the copies in the model artifact."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, NamedTuple

from tasks.config.models import ImportedModel, ModelConfig
from tasks.environment.user_code import files_of, packages_of
from tasks.models.keras_archive import CONFIG, architecture_of

BROUGHT_VERSION = 4
"""Incremented when a model that the user has brought would get other weights, and those of Millrace would not."""

FOLDER = "code"
"""The folder of the copies in a model artifact."""


class Brought(NamedTuple):
    """How a kind is copied into a model artifact."""

    files: Callable[[Any], dict[str, bytes]]
    """Returns the files by path, of a config."""
    field: str
    """The setting that names the place of the copies."""
    place: str
    """The place, relative to the artifact."""
    packages: Callable[[Any, dict[str, bytes]], list[tuple[str, str]]] = lambda config, files: []
    """Returns name and version of the packages that decide it, of a config and its files."""


def own_files(config: Any) -> dict[str, bytes]:
    """Return the files that a brought model is built from, by path in `code/`; none for the architectures of Millrace.

    Raises:
        Refused: there is no such module or file, or it is not Python.
        Failed: a file is not of Keras.
    """
    if config.inner is not None:
        return own_files(config.inner)
    return BROUGHT[config.kind].files(config) if config.kind in BROUGHT else {}


def source_files(config: ModelConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of what a brought model is built from, and of the weights that it begins with.

    The versions of the packages that its code imports are among them, and the version of how such models are trained.
    """
    if config.kind not in BROUGHT:
        return []
    own, kind = own_files(config), BROUGHT[config.kind]
    files = {f"{FOLDER}/{path}": sha256(content).hexdigest() for path, content in own.items()}
    files |= {f"package/{name}": number for name, number in kind.packages(config, own)}
    files["version"] = str(BROUGHT_VERSION)
    if (weights := config.weights_file) is not None:
        with open(weights, "rb") as file:
            files["weights"] = file_digest(file, "sha256").hexdigest()
    return list(files.items())


def at(config: Any, folder: Path) -> Any:
    """Return the config of a model artifact in a folder, with the copies of its files in place of the user's."""
    if config.inner is not None:
        return config.model_copy(update={"model": at(config.inner, folder)})
    if config.kind not in BROUGHT:
        return config
    copied = BROUGHT[config.kind]
    return config.model_copy(update={copied.field: str(folder / copied.place)})


def stored(config: Any) -> Any:
    """Return a config as an artifact describes it: with the places of the copies within it, wherever the files were."""
    return at(config, Path())


def module_files(config: ImportedModel) -> dict[str, bytes]:
    """Return the module of a function, and what it imports from its folder."""
    return files_of("model.target", config.target, Path(config.folder))


BROUGHT: dict[str, Brought] = {
    "import": Brought(module_files, "folder", FOLDER, lambda config, files: packages_of(files, Path(config.folder))),
    "keras_file": Brought(lambda config: {CONFIG: architecture_of(Path(config.path))}, "path", f"{FOLDER}/{CONFIG}"),
}
"""The kinds that a user brings."""
