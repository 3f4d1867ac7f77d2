"""What keeps a home in order: the work of `millrace gc` and `millrace backup`, and of the flows that run at night."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra import backup as backups
from infra import databases, orchestration
from infra.stack import Stack
from tasks.display import terminal
from tasks.runs.collection import Dropped, collect, needed_by_releases
from tasks.runs.home import Home


def back_up(home: Home, folder: Path, keep: int | None) -> Path:
    """A backup of this home, read again and found to be what its manifest says."""
    layout = Stack(home.root).layout
    address = databases.address_of(layout.database) if layout is not None and layout.database else None
    made = backups.back_up(home.root, folder.expanduser().absolute(), needed_by_releases(home), address, keep)
    backups.verify(made)
    return made


def make_room(home: Home, keep: int, days: int | None, dry_run: bool) -> list[Dropped]:
    """What the store need not keep; with `days`, also the old in MLflow and in Prefect."""
    dropped = collect(home, keep, dry_run)
    if days is None:
        return dropped
    before = datetime.now(UTC) - timedelta(days=days)
    if home.has_registry():
        from tasks.registry.registry import user_errors
        from tasks.tracking.pruning import prune

        with user_errors(home.mlflow_uri):
            found = prune(home.mlflow_uri, before, dry_run)
        dropped += [Dropped(f"files in MLflow of {run.name}", home.mlartifacts, run.bytes) for run in found]
    stack = Stack(home.root)
    if stack.layout is None or "prefect" not in stack.living():
        if os.environ.get("PREFECT_API_URL") is None:
            terminal.say("Prefect's history stays: its server is down (millrace up)")
        return dropped
    runs = orchestration.prune(stack.layout, before, dry_run)
    return [*dropped, *(Dropped(f"Prefect's run {name}", home.prefect, 0) for name in runs)]
