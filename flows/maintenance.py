"""Garbage collection and backups, for the commands and for the nightly flows."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra import backup as backups
from infra import databases, orchestration
from infra.stack import Stack
from tasks.runs.collection import Dropped, collect, needed_by_releases
from tasks.runs.home import Home
from tasks.view import terminal


def back_up(home: Home, folder: Path, keep: int | None) -> Path:
    """Back up this home, verify the backup, delete all but the newest `keep` of this home, and return its folder."""
    layout = Stack(home.root).layout
    address = databases.address_of(layout.database) if layout is not None and layout.database else None
    into = folder.expanduser().absolute()
    made = backups.back_up(home.root, into, needed_by_releases(home), address)
    backups.verify(made)
    if keep is not None:
        backups.rotate_out(home.root, into, keep)
    return made


def collect_garbage(home: Home, keep: int, days: int | None, dry_run: bool) -> list[Dropped]:
    """Delete artifacts that nothing needs, with `days` also old history in MLflow and Prefect; return a list."""
    dropped = collect(home, keep, dry_run)
    if days is None:
        return dropped
    before = datetime.now(UTC) - timedelta(days=days)
    if home.has_registry():
        from tasks.registry.registry import user_errors
        from tasks.tracking.runs import prune

        with user_errors(home.mlflow_uri):
            pruned = prune(home.mlflow_uri, before, dry_run)
        dropped += [Dropped(f"files in MLflow of {run.name}", home.mlartifacts, run.bytes) for run in pruned]
    stack = Stack(home.root)
    if stack.layout is None or "prefect" not in stack.living():
        if os.environ.get("PREFECT_API_URL") is None:
            terminal.say("Prefect's history is not pruned: its server is down (run millrace up)")
        return dropped
    runs = orchestration.prune(stack.layout, before, dry_run)
    return [*dropped, *(Dropped(f"Prefect's run {name}", home.prefect, 0) for name in runs)]
