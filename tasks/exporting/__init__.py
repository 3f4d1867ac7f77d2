"""Formats of a deployable model: a module per format, running them, and their verification in a fresh process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import keras

    from tasks.exporting.preprocess import Preprocess
    from tasks.models.forward import Call

EXPORT_VERSION = 6
"""Incremented when the same model and variants would give another export."""

EXPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "ai-edge-litert", "pillow", "soundfile", "tokenizers")
"""Packages whose versions decide an export's bytes."""

SAVED_MODEL = "saved_model"
LITERT = "litert"

FORMATS = {SAVED_MODEL: "tasks.exporting.saved_model", LITERT: "tasks.exporting.litert"}
"""The module of each format, imported on use; the float variant in a format has the format's name."""


class Format(Protocol):
    """A module of `FORMATS`.

    It imports nothing of this project, and no package outside of its functions: a fresh process that cannot import
    this project loads the file by its path, to verify an export with it.
    """

    __file__: str

    FILE: str
    """Name of the file or folder in a variant and in an export."""

    PARENT: str | None
    """The format that it is converted from; None for the Keras model itself."""

    RUNTIME: str
    """The module that runs it."""

    PACKAGE: str
    """The package of that module."""

    README: str
    """Code of an export's README that loads a file and defines `predict`, with the fields that `readme` fills."""

    def write(self, model: keras.Model, preprocess: Preprocess | None, parent: Path | None, target: Path) -> None:
        """Write the float model to `target`, from Keras or from the parent's file, and its preprocessing where it can
        hold that."""

    def load(self, path: Path, threads: int) -> tuple[Call, dict[str, Any]]:
        """Load a file; return the model as a function, and its `signatures`, `inputs` and `outputs`.

        With a signature `raw` the model has the methods `raw` and `preprocess`, which take raw columns.
        """
        ...


def format_of(name: str) -> Format:
    """Return the module of a format."""
    return cast(Format, import_module(FORMATS[name]))
