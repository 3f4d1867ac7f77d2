"""Formats of a deployable model: a module per format, running them, and their verification in a fresh process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from tasks.errors import Refused

if TYPE_CHECKING:
    import keras

    from tasks.exporting.preprocess import Preprocess
    from tasks.models.decoding import Function
    from tasks.models.forward import Call

EXPORT_VERSION = 11
"""Incremented when the same model and variants would give another export."""

EXPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "ai-edge-litert", "pillow", "soundfile", "tokenizers")
"""Packages whose versions decide an export's bytes, besides those of its formats."""

EVIDENCE = "judged.npz"
"""The file of a variant that gates read; no part of an export."""

SAVED_MODEL = "saved_model"
LITERT = "litert"

FORMATS = {
    SAVED_MODEL: "tasks.exporting.saved_model",
    LITERT: "tasks.exporting.litert",
    "keras": "tasks.exporting.keras",
    "onnx": "tasks.exporting.onnx",
    "openvino": "tasks.exporting.openvino",
    "safetensors": "tasks.exporting.safetensors",
    "stablehlo": "tasks.exporting.stablehlo",
}
"""The module of each format, imported on use; the float variant in a format has the format's name."""


class Format(Protocol):
    """A module of `FORMATS`.

    It imports no package outside of its functions, and this project only in `write` and `check`: a fresh process that
    cannot import this project loads the file by its path, to verify an export with it.
    """

    __file__: str

    FILE: str
    """Name of the file or folder in a variant and in an export."""

    PARENT: str | None
    """The format that it is converted from; None for the Keras model itself."""

    EXTRA: str | None
    """The extra of this project that installs its packages; None where they always are."""

    LIBRARIES: tuple[str, ...]
    """The packages that write and run it, whose versions decide its bytes and its answers."""

    PACKAGES: tuple[str, ...]
    """Those that a user needs to run it, besides NumPy."""

    RUNTIMES: tuple[str, ...]
    """Their modules. A fresh process can import neither TensorFlow nor Keras where they are not among them."""

    SHARES_THREADS: bool
    """Whether it runs on the threads of the process, and not on a number of its own."""

    README: str
    """Code of an export's README that loads a file and defines `predict`, with the fields that `readme` fills."""

    RUN: str
    """Code that defines `run(signature, inputs)` after that; "" where the format has no further signatures."""

    def write(
        self,
        model: keras.Model,
        preprocess: Preprocess | None,
        parent: Path | None,
        target: Path,
        functions: Sequence[Function] = (),
    ) -> None:
        """Write the float model to `target`, from Keras or from the parent's file, and its preprocessing and further
        functions where it can hold them, as signatures."""

    def check(self, path: Path) -> None:
        """Raise `Failed` for a file that could do more than compute; called before `load` in this project's processes.

        A file may be of somebody else: `millrace predict` takes any folder, and a registry is filled by others.
        """

    def load(self, path: Path, threads: int) -> tuple[Call, dict[str, Any]]:
        """Load a file; return the model as a function, and its `signatures`, `inputs` and `outputs`.

        With a signature `raw` the model has the methods `raw` and `preprocess`, which take raw columns, and with
        `decode` a method `run`, which takes the name of a signature and its inputs by name. A format that
        keeps the weights by their paths also returns their `weights_sha256`, that of the manifest of the model.
        """
        ...


def format_of(name: str) -> Format:
    """Return the module of a format."""
    return cast(Format, import_module(FORMATS[name]))


def with_parents(name: str) -> list[str]:
    """Return a format and those that it is converted from, first the one that is made of the Keras model."""
    parent = format_of(name).PARENT
    return [*(with_parents(parent) if parent else ()), name]


def check_installed(formats: Iterable[str]) -> None:
    """Raise `Refused` where a package that a format, or a format that it is converted from, needs is not installed."""
    for wanted in formats:
        for form in map(format_of, with_parents(wanted)):
            for package in form.LIBRARIES:
                try:
                    version(package)
                except PackageNotFoundError:
                    remedy = f"pip install 'millrace[{form.EXTRA}]', or leave {wanted} out"
                    rule = f"the format needs the package {package}, which is not installed"
                    raise Refused("export.formats", wanted, rule, remedy) from None
