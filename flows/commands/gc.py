"""millrace gc: make room."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.reply import AsJson, replying
from tasks.pages.words import kilobytes
from tasks.store.gc import collect
from tasks.store.home import find_home


def gc(
    keep: Annotated[int, typer.Option("--keep", min=1, help="Keep what the last N runs use.")] = 10,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what no run of the last N, no unfinished run and no release needs."""
    with replying("gc", as_json) as reply:
        dropped = collect(find_home().readable(), keep, dry_run)
        total = sum(item.bytes for item in dropped)
        reply.add(dropped=[{"what": item.what, "bytes": item.bytes} for item in dropped], bytes=total, dry_run=dry_run)
        if not as_json:
            for item in dropped:
                typer.echo(f"{kilobytes(item.bytes):>10}  {item.what}")
            verb = "would be dropped" if dry_run else "dropped"
            typer.echo(f"{len(dropped)} {verb}, {kilobytes(total)}" if dropped else "nothing to drop")
