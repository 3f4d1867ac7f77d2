"""Fits `function`: shape, mean and variance of what the user's function returns; and finds its files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config.transform import Function
from tasks.data.features import Feature
from tasks.data.reader.function import FOLDER, imported
from tasks.data.reader.values import Values
from tasks.data.transforms import NUMBERS, Fitted, Rows
from tasks.data.transforms.moments import Moments
from tasks.errors import Failed, Refused

KEPT = ("uint8", "uint16", "int32")
"""The dtypes of arrays that stay; others become float32."""


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
        result = np.asarray(self._function(list(values)))
        if self._shape is None:
            self._shape, self._moments = result.shape[1:], Moments(result.shape[1:])
            self._dtype = str(result.dtype) if self._shape and str(result.dtype) in KEPT else "float32"
        if result.dtype.kind not in "fiub" or result.shape != (len(values), *self._shape):
            saw = f"{result.dtype} {list(result.shape)} from {self._config.function} for {len(values)} values"
            rule = "it returns numbers whose first axis are the values, and the others always the same"
            raise Failed(f"snapshot.transforms.{self._name}", saw, rule, "correct the function")
        if self._dtype == "float32":
            self._moments.add(result.astype(np.float32))

    def merge(self, other: FunctionFitter) -> None:
        """Learn what another has learnt."""
        if self._shape is None:
            self._shape, self._dtype, self._moments = other._shape, other._dtype, Moments(other._shape or ())
        self._moments.merge(other._moments)

    def fitted(self) -> Fitted:
        """Return the transform."""
        shape = list(self._shape or ())
        state = {"kind": "function", "function": self._config.function, "dtype": self._dtype, "shape": shape}
        if not shape:
            return Fitted(state, {"names": [self._name], **self._moments.as_json()}, NUMBERS)
        own: dict[str, Any] = {"dtype": self._dtype, "shape": shape}
        return Fitted(state, {**own, **self._moments.of_last_axis().as_json()} if self._dtype == "float32" else own)


def fitter(name: str, feature: Feature, config: Function, folder: Path) -> FunctionFitter:
    """Return a fitter of any column; the files of the function are in `folder`."""
    return FunctionFitter(name, config, folder)


def files_of(setting: str, config: Function) -> dict[str, bytes]:
    """Return the file of a function's module and those that it imports from the same folder, by path in `transform/`.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    folder, module = Path(config.folder), config.function.partition(":")[0]
    if _file(folder, module) is None:
        saw = f"no module {module} in {folder.absolute()}"
        raise Refused(f"{setting}.function", saw, "it is imported from there", f"correct it, or {setting}.folder")
    files: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for known in _with_parents(name):
            path = _file(folder, known)
            if path is None or (key := f"{FOLDER}/{path.relative_to(folder).as_posix()}") in files:
                continue
            files[key] = path.read_bytes()
            try:
                waiting += _imports(files[key], known, path.name == "__init__.py")
            except (SyntaxError, ValueError) as error:
                raise Refused(f"{setting}.function", f"{path}: {error}", "it is Python", "correct the file") from error
    return files


def _file(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[: length + 1]) for length in range(len(parts))]


def _imports(source: bytes, module: str, is_package: bool) -> Iterator[str]:
    """Yield the names of the modules that a module may import."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")
            base = package[: len(package) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" if origin else alias.name for alias in node.names)
