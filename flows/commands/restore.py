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

Database = Annotated[
    str | None, typer.Option("--database-url", help="The empty database for a backup that was made of PostgreSQL.")
]


def restore(
    folder: Annotated[Path, typer.Argument(help="A backup, or the folder of several: then the newest.")],
    database_url: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make the home, which must be empty, from a backup: each file verified, every path put into the new place."""
    with replying("restore", as_json) as reply:
        home = find_home().readable()
        if Stack(home.root).living():
            raise Refused(
                str(home.root), "a stack is up here", "a backup is restored into an empty home", "millrace down"
            )
        address = None if database_url is None else databases.address_of(database_url)
        chosen = backups.find_backup(folder.expanduser().absolute())
        backups.check(chosen, home.root, address)
        manifest = backups.restore(chosen, home.root, address)
        reply.add(backup=str(chosen), home=str(home.root), created=manifest["created"], files=len(manifest["files"]))
        if not as_json:
            flag = "" if database_url is None else f" --database-url {database_url}"
            typer.echo(f"{home.root}  as it was at {manifest['created']}; go on with `millrace up{flag}`")
