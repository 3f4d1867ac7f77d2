"""millrace restore: a backup into an empty home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.reply import AsJson, replying
from infra import backup as backups
from infra import databases
from infra.stack import Stack
from tasks.errors import Refused
from tasks.runs.home import find_home
from tasks.view import terminal

Database = Annotated[
    str | None, typer.Option("--database-url", help="The empty database for a backup that was made of PostgreSQL.")
]


def restore(
    folder: Annotated[Path, typer.Argument(help="A backup, or a folder of backups, of which the newest is used.")],
    database_url: Database = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into the empty home: every file is verified, and paths are rewritten."""
    with replying("restore", as_json) as reply:
        home = find_home().readable()
        if Stack(home.root).living():
            raise Refused(
                str(home.root), "its stack is running", "a backup is restored into an empty home", "run millrace down"
            )
        address = None if database_url is None else databases.address_of(database_url)
        backup = backups.find_backup(folder.expanduser().absolute())
        backups.check(backup, home.root, address)
        with terminal.waiting(f"verifying and copying {backup}"):
            manifest = backups.restore(backup, home.root, address)
        reply.add(backup=str(backup), home=str(home.root), created=manifest["created"], files=len(manifest["files"]))
        if not as_json:
            flag = "" if database_url is None else f" --database-url {database_url}"
            typer.echo(f"{home.root}  restored from {manifest['created']}; next: millrace up{flag}")
