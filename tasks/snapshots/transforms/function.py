"""The transform of any column by a function of the user's; and the files of code that fitted transforms carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from tasks import reader
from tasks.config.base import NOT_IDENTITY, IsPath, OwnCode
from tasks.environment.user_code import closure, deciding, files_of
from tasks.errors import Failed
from tasks.reader.function import FOLDER, called
from tasks.reader.own_modules import imported
from tasks.reader.values import Values
from tasks.snapshots.transforms import NUMBERS, Fitted, Fitter, Rows, Transform
from tasks.snapshots.transforms.statistics import Moments
from tasks.sources.features import Feature
from tasks.sources.kinds.columns import Text

KEPT = ("uint8", "uint16", "int32")
"""The dtypes of arrays that stay; others become float32."""


class Function(Transform, place=6):
    """A function of the user's. It takes a list with the values of some rows (float or an array, str, a list of
    str, bytes, or microseconds since 1970 in UTC) and returns an array of numbers whose first axis are these rows; the
    result of a row must not depend on the others. Snapshots and exports hold a copy of its files."""

    reads: ClassVar[tuple[str, ...]] = ("number", "category", "text", "words", "image", "audio", "time")
    reads_arrays: ClassVar[bool] = True
    makes: ClassVar[str | None] = None
    no_graph: ClassVar[str] = "a function of yours makes it"

    kind: Literal["function"] = "function"
    """The transform."""

    function: OwnCode
    """`package.module:function`, importable from the preset's folder. It may import installed packages, and the modules
    of that folder."""

    folder: Annotated[Text, NOT_IDENTITY, IsPath()] = "."
    """The folder from which the module is imported, relative to the preset."""

    def is_alone(self, feature: Feature) -> bool:
        return False

    def fitter(self, name: str, feature: Feature, folder: Path) -> Fitter:
        return FunctionFitter(name, self, folder)


class FunctionFitter:
    """Learns from the results."""

    reads = True

    def __init__(self, name: str, config: Function, folder: Path) -> None:
        self._name, self._config = name, config
        self._function = imported(config.function, folder / FOLDER)
        self._shape: tuple[int, ...] | None = None
        self._dtype = "float32"
        self._moments = Moments()

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from the function's result for some rows; raises `Failed` where it is no array of numbers."""
        setting = f"snapshot.transforms.{self._name}"
        try:
            result = called(self._config.function, self._function, values)
        except ValueError as error:
            raise Failed(setting, str(error), "it must take every row", "correct the function") from error
        if self._shape is None:
            self._shape, self._moments = result.shape[1:], Moments(result.shape[1:])
            self._dtype = str(result.dtype) if self._shape and str(result.dtype) in KEPT else "float32"
        if result.dtype.kind not in "fiub" or result.shape != (len(values), *self._shape):
            saw = f"{result.dtype} {list(result.shape)} from {self._config.function} for {len(values)} values"
            rule = "it returns numbers whose first axis are the values, and the others always the same"
            raise Failed(setting, saw, rule, "correct the function")
        if self._dtype == "float32":
            self._moments.add(result.astype(np.float32))

    def fitted(self) -> Fitted:
        """Return the transform."""
        shape = list(self._shape or ())
        state = {"kind": "function", "function": self._config.function, "dtype": self._dtype, "shape": shape}
        if not shape:
            return Fitted(state, {"names": [self._name], **self._moments.as_json()}, NUMBERS)
        own: dict[str, Any] = {"dtype": self._dtype, "shape": shape}
        return Fitted(state, {**own, **self._moments.of_last_axis().as_json()} if self._dtype == "float32" else own)


def reader_files(kinds: Iterable[str]) -> dict[str, bytes]:
    """Return the files of the reader that these kinds of transforms need, by path in `transform/`."""
    package = Path(str(reader.__file__)).parent
    modules = sorted({reader.FAMILIES.get(kind, kind) for kind in kinds})
    found = closure(package.parent, [f"{package.name}.{module}" for module in modules])
    return {name: content for name, content in found.items() if name.startswith(f"{package.name}/")}


def own_code(transforms: Mapping[str, Transform]) -> dict[str, bytes]:
    """Return the files of the user's functions by path in `transform/`.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    found = [files for _, files in _functions(transforms)]
    return dict(sorted((f"{FOLDER}/{path}", content) for files in found for path, content in files.items()))


def own_sources(transforms: Mapping[str, Transform]) -> list[tuple[str, str]]:
    """Return what the user's functions put into a digest: path and SHA-256 of their files, and name and version of the
    packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    found = {pair for folder, files in _functions(transforms) for pair in deciding(files, folder)}
    return sorted((f"{FOLDER}/{name}", value) for name, value in found)


def _functions(transforms: Mapping[str, Transform]) -> Iterator[tuple[Path, dict[str, bytes]]]:
    """Yield the folder and the files of each function of the user's."""
    for name, transform in transforms.items():
        if isinstance(transform, Function):
            folder = Path(transform.folder)
            yield folder, files_of(f"snapshot.transforms.{name}.function", transform.function, folder)
