"""Formats of a deployable model: a class a format, running them, and their verification in a fresh process."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import Refused
from tasks.exporting.formats.format import Format
from tasks.exporting.formats.litert import LiteRT
from tasks.exporting.formats.saved_model import SavedModel

if TYPE_CHECKING:
    from tasks.models.forward import Call

EXPORT_VERSION = 11
"""Incremented when the same model and variants would give another export."""

EXPORT_LIBRARIES = ("tensorflow", "keras", "numpy", "ai-edge-litert", "pillow", "soundfile", "tokenizers")
"""Packages whose versions decide an export's bytes, besides those of its formats."""

EVIDENCE = "judged.npz"
"""The file of a variant that gates read; no part of an export."""

SAVED_MODEL, LITERT = SavedModel.kind, LiteRT.kind

FORMATS: dict[str, type[Format]] = Format.kinds()
"""The formats by name."""


def with_parents(name: str) -> list[str]:
    """Return a format and those that it is converted from, first the one that is made of the Keras model."""
    parent = FORMATS[name].parent
    return [*(with_parents(parent) if parent else ()), name]


def check_installed(formats: Iterable[str]) -> None:
    """Raise `Refused` where a package that a format, or a format that it is converted from, needs is not installed."""
    for wanted in formats:
        for form in map(FORMATS.__getitem__, with_parents(wanted)):
            for package in form.libraries:
                try:
                    version(package)
                except PackageNotFoundError:
                    remedy = f"pip install 'millrace[{form.extra}]', or leave {wanted} out"
                    rule = f"the format needs the package {package}, which is not installed"
                    raise Refused("export.formats", wanted, rule, remedy) from None


def open_variant(folder: Path, format_name: str, threads: int = 1) -> Call:
    """Load the variant in `folder`, checked; `format_name` is its format.

    `threads` applies to a format with threads of its own; others use those of the process
    (`tasks.processes.threads.pin`).
    """
    form = FORMATS[format_name]
    form.check(folder / form.file)
    return form(folder / form.file, threads)


def float_model(export: Path) -> Call:
    """Load the float model of an export: LiteRT where there is one, as it starts faster."""
    format_name = LITERT if (export / LITERT).is_dir() else SAVED_MODEL
    return open_variant(export / format_name, format_name)
