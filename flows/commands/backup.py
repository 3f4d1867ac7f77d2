"""millrace backup: back up the home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.maintenance import back_up
from flows.reply import AsJson, replying
from tasks.runs.collection import size
from tasks.runs.home import find_home
from tasks.view import kilobytes, terminal

Folder = Annotated[Path, typer.Argument(help="Folder of the backups; each is a folder in it.")]


def backup(
    folder: Folder,
    keep: Annotated[
        int | None, typer.Option("--keep", min=1, help="Delete all but the newest N backups of this home.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy and verify the servers' history, the registry, the runs, and the artifacts that releases need."""
    with replying("backup", as_json) as reply:
        home = find_home().readable()
        with terminal.waiting(f"copying {home.root} and verifying the copy"):
            made = back_up(home, folder, keep)
        reply.add(backup=str(made), bytes=size(made))
        if not as_json:
            typer.echo(f"{made}  {kilobytes(size(made))}, verified")
