"""millrace backup: what cannot be made again, copied and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.maintenance import back_up
from flows.reply import AsJson, replying
from tasks.display.words import kilobytes
from tasks.runs.collection import size
from tasks.runs.home import find_home

Folder = Annotated[Path, typer.Argument(help="Where backups lie; each gets a folder of its own there.")]


def backup(
    folder: Folder,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Of all backups there, let the newest N stay.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy both servers' history, the registry, the runs' records, and the artifacts that releases need."""
    with replying("backup", as_json) as reply:
        made = back_up(find_home().readable(), folder, keep)
        reply.add(backup=str(made), bytes=size(made))
        if not as_json:
            typer.echo(f"{made}  {kilobytes(size(made))}, verified")
