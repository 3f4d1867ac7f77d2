"""millrace gc: make room."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from flows.commands.reply import AsJson, replying
from flows.commands.run import use_stack
from flows.commands.up import told
from infra import orchestration
from infra.stack import Stack
from tasks import console
from tasks.pages.words import kilobytes
from tasks.store.gc import Dropped, collect
from tasks.store.home import Home, find_home

Days = Annotated[
    int | None,
    typer.Option("--days", min=1, help="Also drop history older than this: MLflow runs' files, Prefect's runs."),
]


def gc(
    keep: Annotated[int, typer.Option("--keep", min=1, help="Keep what the last N runs use.")] = 10,
    days: Days = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what no run of the last N, no unfinished run and no release needs."""
    with replying("gc", as_json) as reply:
        home = find_home().readable()
        use_stack(home)
        dropped = make_room(home, keep, days, dry_run)
        total = sum(item.bytes for item in dropped)
        reply.add(dropped=[{"what": item.what, "bytes": item.bytes} for item in dropped], bytes=total, dry_run=dry_run)
        if not as_json:
            for item in dropped:
                typer.echo(f"{kilobytes(item.bytes):>10}  {item.what}")
            verb = "would be dropped" if dry_run else "dropped"
            typer.echo(f"{len(dropped)} {verb}, {kilobytes(total)}" if dropped else "nothing to drop")


def make_room(home: Home, keep: int, days: int | None, dry_run: bool) -> list[Dropped]:
    """What the store need not keep; with `days`, also the old in MLflow and in Prefect."""
    dropped = collect(home, keep, dry_run)
    if days is None:
        return dropped
    before = datetime.now(UTC) - timedelta(days=days)
    if home.has_registry():
        from tasks.tracking.pruning import prune
        from tasks.tracking.registry import answering

        with answering(home.mlflow_uri):
            found = prune(home.mlflow_uri, before, dry_run)
        dropped += [Dropped(f"files in MLflow of {run.name}", home.mlartifacts, run.bytes) for run in found]
    stack = Stack(home.root)
    if stack.layout is None or "prefect" not in stack.living():
        if os.environ.get("PREFECT_API_URL") is None:
            console.say("Prefect's history stays: its server is down (millrace up)")
        return dropped
    with told():
        runs = orchestration.prune(stack.layout, before, dry_run)
    return [*dropped, *(Dropped(f"Prefect's run {name}", home.prefect, 0) for name in runs)]
