"""`function`: the user's own code, whose files lie beside the fitted state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .own_modules import imported
from .values import Apply, Values

FOLDER = "functions"
"""The folder of the files, from which they are imported."""


def function(state: dict[str, Any], folder: Path) -> Apply:
    """Return the transform: [rows, 1] of a function of scalars, else [rows, *shape], in the dtype of the state."""
    own = imported(state["function"], folder / FOLDER)
    calling = threading.Lock()  # the user's code may not be ready for threads
    shape = tuple(state["shape"])

    def apply(values: Values) -> NDArray[Any]:
        if not len(values):
            return np.empty((0, *(shape or (1,))), np.dtype(state["dtype"]))
        with calling:
            result = called(state["function"], own, values)
        if result.shape != (len(values), *shape):
            rule = f"must return an array of shape {[len(values), *shape]}"
            raise ValueError(f"{state['function']} returned {list(result.shape)}; {rule}")
        converted = result.astype(np.dtype(state["dtype"]))
        return converted if shape else converted[:, None]

    return apply


def called(name: str, function: Callable[[list[Any]], Any], values: Values) -> NDArray[Any]:
    """Return what a function makes of values; raises `ValueError` where it fails."""
    try:
        scalars = isinstance(values, np.ndarray) and values.ndim == 1
        return np.asarray(function(values.tolist() if scalars else list(values)))
    except Exception as error:  # whatever the user's code raises
        raise ValueError(f"{name} raised {error!r}") from error
