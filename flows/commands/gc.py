"""millrace gc: make room."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.maintenance import make_room
from flows.reply import AsJson, replying
from flows.session import use_stack
from tasks.display.words import kilobytes
from tasks.runs.home import find_home

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
