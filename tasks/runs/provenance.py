"""Provenance of an artifact: run, host, layout, packages and commit, which are not part of its digest."""

from __future__ import annotations

import functools
import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "ai-edge-litert",
    "ai-edge-quantizer",
    "keras",
    "millrace",
    "mlflow",
    "numpy",
    "prefect",
    "scikit-learn",
    "tensorflow",
    "tensorflow-datasets",
)


def produced_by(run_id: str, attempt: int, layout: dict[str, Any]) -> dict[str, Any]:
    """Return `produced_by` of a manifest."""
    return {
        "run": run_id,
        "attempt": attempt,
        "host": socket.gethostname(),
        "layout": layout,
        "packages": packages(),
        "git_commit": git_commit(),
    }


@functools.cache
def packages() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`, sorted by name."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


@functools.cache
def git_commit() -> str | None:
    """Return the commit of this repository, with `-dirty` after uncommitted changes; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return f"{commit}-dirty" if git("status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.CalledProcessError):
        return None
