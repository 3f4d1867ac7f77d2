"""Steps of prefect.yaml, which read a deployment's config from its preset and its version from git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.config.compose import load, portable
from tasks.runs.home import find_project
from tasks.runs.provenance import git_commit


def read_preset(path: str, flags: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the whole config of a preset and flags, so that the form has every field, and the commit as version.

    Paths in the project are relative to its folder, where each run of the deployment looks for them.
    """
    config = load(Path(path), list((flags or {}).items()), lambda line: None)
    return {"config": portable(config, find_project()), "commit": (git_commit() or "unknown")[:12]}
