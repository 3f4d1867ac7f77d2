"""millrace backup: what cannot be made again, copied and verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.reply import AsJson, replying
from flows.commands.up import told
from infra import backup as backups
from infra import databases
from infra.stack import Stack
from tasks.errors import Failed, Refused
from tasks.pages.words import kilobytes
from tasks.store.gc import size, wanted_by_releases
from tasks.store.home import Home, find_home

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


def back_up(home: Home, folder: Path, keep: int | None) -> Path:
    """A backup of this home, read again and found to be what its manifest says."""
    layout = Stack(home.root).layout
    with faults(Refused):
        address = databases.address_of(layout.database) if layout is not None and layout.database else None
    with faults():
        made = backups.back_up(home.root, folder.expanduser().absolute(), wanted_by_releases(home), address, keep)
        backups.verify(made)
    return made


@contextmanager
def faults(kind: type[Failed] | type[Refused] = Failed) -> Iterator[None]:
    """What goes wrong with a backup, in the form of all errors."""
    try:
        with told(kind):
            yield
    except backups.BackupError as error:
        raise kind(error.what, error.saw, error.rule, error.remedy) from None
