"""The files of a model that the user has brought: what decides it, and the copies in the model artifact."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, NamedTuple

from tasks.config import ImportedModel, ModelConfig
from tasks.data.user_code import files_of
from tasks.errors import Failed, Refused

FOLDER = "code"
"""The folder of the copies in a model artifact."""
CONFIG = "config.json"
"""The architecture within a `.keras` file."""
MOST_BYTES = 64 << 20
"""The largest architecture that is read; a larger one is no model but an attack on the memory."""


class Brought(NamedTuple):
    """How a kind is copied into a model artifact."""

    files: Callable[[Any], dict[str, bytes]]
    """Returns the files by path, of a config."""
    field: str
    """The setting that names the place of the copies."""
    place: str
    """The place, relative to the artifact."""


def own_files(config: ModelConfig) -> dict[str, bytes]:
    """Return the files that a brought model is built from, by path in `code/`; none for the architectures of Millrace.

    Raises:
        Refused: there is no such module or file, or it is not Python.
        Failed: a file is not of Keras.
    """
    return BROUGHT[config.kind].files(config) if config.kind in BROUGHT else {}


def source_files(config: ModelConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of what a brought model is built from, and of the weights that it begins with."""
    files = {f"{FOLDER}/{path}": sha256(content).hexdigest() for path, content in own_files(config).items()}
    if (weights := config.weights_file) is not None:
        with open(weights, "rb") as file:
            files["weights"] = file_digest(file, "sha256").hexdigest()
    return list(files.items())


def at(config: ModelConfig, folder: Path) -> ModelConfig:
    """Return the config of a model artifact in a folder, with the copies of its files in place of the user's."""
    if config.kind not in BROUGHT:
        return config
    copied = BROUGHT[config.kind]
    return config.model_copy(update={copied.field: str(folder / copied.place)})


def module_files(config: ImportedModel) -> dict[str, bytes]:
    """Return the module of a function, and what it imports from its folder."""
    return files_of("model.target", config.target, Path(config.folder))


def architecture_of(path: Path) -> bytes:
    """Return the architecture in a `.keras` file, or the copy of one."""
    if path.suffix == ".json":
        return path.read_bytes()
    if not path.is_file():
        raise Refused("model.path", str(path), "no such file", "correct it")
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(CONFIG).file_size > MOST_BYTES:
                rule = f"the architecture in a .keras file has {MOST_BYTES >> 20} MiB at most"
                raise Failed(
                    "model.path", f"{path}: {archive.getinfo(CONFIG).file_size} bytes", rule, "use another file"
                )
            return archive.read(CONFIG)
    except (zipfile.BadZipFile, KeyError, OSError, ValueError) as error:
        rule = "is a file that Keras 3 saved: model.save('model.keras')"
        raise Refused("model.path", f"{path}: {error}", rule, "save it again") from None


BROUGHT: dict[str, Brought] = {
    "import": Brought(module_files, "folder", FOLDER),
    "keras_file": Brought(lambda config: {CONFIG: architecture_of(Path(config.path))}, "path", f"{FOLDER}/{CONFIG}"),
}
"""The kinds that a user brings."""
