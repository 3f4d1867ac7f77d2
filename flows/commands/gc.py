"""millrace gc: delete artifacts that nothing needs."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.maintenance import collect_garbage
from flows.reply import AsJson, replying
from flows.session import use_stack
from tasks.runs.home import find_home
from tasks.view import kilobytes, terminal

Days = Annotated[
    int | None, typer.Option("--days", min=1, help="Also delete older history: files of MLflow runs, runs in Prefect.")
]


def gc(
    keep: Annotated[int, typer.Option("--keep", min=1, help="Keep the artifacts that the last N runs use.")] = 10,
    days: Days = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete artifacts that none of the last N runs, no unfinished run and no release needs."""
    with replying("gc", as_json) as reply:
        home = find_home().readable()
        use_stack(home)
        with terminal.waiting("looking for what nothing needs" if dry_run else "deleting what nothing needs"):
            dropped = collect_garbage(home, keep, days, dry_run)
        total = sum(item.bytes for item in dropped)
        reply.add(dropped=[{"what": item.what, "bytes": item.bytes} for item in dropped], bytes=total, dry_run=dry_run)
        if not as_json:
            for item in dropped:
                typer.echo(f"{kilobytes(item.bytes):>10}  {item.what}")
            verb = "would be deleted" if dry_run else "deleted"
            typer.echo(f"{len(dropped)} {verb}, {kilobytes(total)}" if dropped else "nothing to delete")
