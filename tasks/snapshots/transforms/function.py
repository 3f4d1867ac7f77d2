"""Fits `function`: shape, mean and variance of what the user's function returns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.config.transform import Function
from tasks.errors import Failed
from tasks.reader.function import FOLDER, called, imported
from tasks.reader.values import Values
from tasks.snapshots.transforms import NUMBERS, Fitted, Rows
from tasks.snapshots.transforms.moments import Moments
from tasks.sources.features import Feature

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


def fitter(name: str, feature: Feature, config: Function, folder: Path) -> FunctionFitter:
    """Return a fitter of any column; the files of the function are in `folder`."""
    return FunctionFitter(name, config, folder)


def graph(states: Sequence[dict[str, Any]]) -> str:
    """Return why it has no operations of TensorFlow."""
    return "a function of yours makes it"
