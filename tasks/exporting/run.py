"""Any deployable form of a model as a function on NumPy batches."""

from __future__ import annotations

from pathlib import Path

from tasks.exporting import LITERT, SAVED_MODEL, format_of
from tasks.models.forward import Call


def open_variant(folder: Path, format_name: str, threads: int = 1) -> Call:
    """Load the variant in `folder`, checked; `format_name` is its format.

    `threads` applies to a format with threads of its own; others use those of the process
    (`tasks.processes.threads.pin`).
    """
    form = format_of(format_name)
    form.check(folder / form.FILE)
    call, _ = form.load(folder / form.FILE, threads)
    return call


def float_model(export: Path) -> Call:
    """Load the float model of an export: LiteRT where there is one, as it starts faster."""
    format_name = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / format_name, format_name)
