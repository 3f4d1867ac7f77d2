"""Steps of prefect.yaml: what its deployments take from the presets and from git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.config.load import load
from tasks.runs.provenance import git_commit


def read_preset(path: str) -> dict[str, Any]:
    """The preset's config in full, so that the form shows every field, and the commit as the deployment's version."""
    config = load(Path(path), [], lambda line: None)
    return {"config": config.model_dump(mode="json"), "commit": (git_commit() or "unknown")[:12]}
