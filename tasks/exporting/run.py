"""Any deployable form of a model as a function on NumPy batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.exporting import LITERT, SAVED_MODEL, format_of

Runner = Callable[[npt.NDArray], npt.NDArray[np.float32]]
"""From [B, *shape] in the input's dtype to float32 outputs [B, classes], for any B."""


def open_variant(folder: Path, format_name: str, threads: int = 1) -> Runner:
    """Load the variant in `folder`; `format_name` is its format.

    `threads` applies to LiteRT; a SavedModel uses the threads of the process (`tasks.processes.threads.pin`).
    """
    form = format_of(format_name)
    call, _ = form.load(folder / form.FILE, threads)
    return call


def float_model(export: Path) -> Runner:
    """Load the float model of an export: LiteRT where there is one, as it starts faster."""
    format_name = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / format_name, format_name)
