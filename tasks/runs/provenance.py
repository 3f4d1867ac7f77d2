"""By whom, where and with what an artifact was made: what depends on the clock or the host, and nothing else."""

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
    """The manifest's `produced_by`."""
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
    """Versions of Python and of the packages that count."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@functools.cache
def git_commit() -> str | None:
    """The commit of our code, marked `-dirty` where files differ from it; None outside a checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        return f"{commit}-dirty" if git("status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.CalledProcessError):
        return None
