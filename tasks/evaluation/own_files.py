"""The files of metrics of the user's, which decide a report."""

from __future__ import annotations

from pathlib import Path

from tasks.environment.user_code import deciding, files_of
from tasks.evaluation.config import EvaluateConfig

FIELD = "evaluate.own_metrics"


def source_files(config: EvaluateConfig) -> list[tuple[str, str]]:
    """Return path and SHA-256 of the modules of own metrics, and of what they import from their folder; and name and
    version of the packages that these import.

    Raises:
        Refused: there is no such module, or it is not Python.
    """
    folder, files = Path(config.folder or "."), dict[str, bytes]()
    for function in config.own_metrics.values():
        files |= files_of(FIELD, function, folder)
    return [(f"metrics/{name}", value) for name, value in deciding(dict(sorted(files.items())), folder)]
