"""The files of a home: millrace verify, gc, backup and restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.maintenance import back_up, collect_garbage
from flows.reply import AsJson, replying
from flows.session import use_stack
from infra import backup as backups
from infra import databases
from infra.stack import Stack
from tasks.errors import Refused
from tasks.runs.audit import Audit
from tasks.runs.collection import size
from tasks.runs.home import find_home
from tasks.store.store import Store
from tasks.view import kilobytes, terminal


def verify(
    artifact: Annotated[str | None, typer.Argument(help="kind/digest or an unambiguous digest prefix.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of the store.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hash every file of an artifact, or of all and the audit log, and list damage. Exit code 1 if there is any."""
    with replying("verify", as_json) as reply:
        home = find_home().readable()
        store = Store(home.store)
        if (artifact is None) == (not everything):
            raise Refused(
                "ARTIFACT", artifact or "nothing", "verify needs an artifact or --all", "run millrace verify --all"
            )
        paths = store.published() if artifact is None else [store.resolve(artifact).path]
        damaged = []
        for path in paths:
            name = f"{path.parent.name}/{path.name}"
            with terminal.waiting(f"hashing {name}"):
                fault = store.verify(path)
            if fault is not None:
                damaged.append({"artifact": name, "file": fault[0], "what": fault[1]})
            detail = f": {' '.join(fault)}" if fault else ""
            reply.say(f"{'DAMAGED' if fault else 'intact':<8} {name}{detail}")
        audit = Audit(home)
        logs = 1 if everything and audit.path.exists() else 0
        if logs:
            name, broken = audit.path.name, audit.fault()
            if broken is not None:
                damaged.append({"artifact": name, "file": f"line {broken[0]}", "what": broken[1]})
            detail = f": line {broken[0]} {broken[1]}" if broken else ""
            reply.say(f"{'DAMAGED' if broken else 'intact':<8} {name}{detail}")
        reply.say(f"{len(paths) + logs - len(damaged)} intact, {len(damaged)} damaged")
        reply.add(checked=len(paths), damaged=damaged)
        reply.exit_code = 1 if damaged else 0


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
        for item in dropped:
            reply.say(f"{kilobytes(item.bytes):>10}  {item.what}")
        verb = "would be deleted" if dry_run else "deleted"
        reply.say(f"{len(dropped)} {verb}, {kilobytes(total)}" if dropped else "nothing to delete")


Folder = Annotated[Path, typer.Argument(help="Folder of the backups; each backup is a folder in it.")]


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
        reply.say(f"{made}  {kilobytes(size(made))}, verified")


Database = Annotated[
    str | None, typer.Option("--database-url", help="An empty database, for a backup of a home on PostgreSQL.")
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
        flag = "" if database_url is None else f" --database-url {database_url}"
        reply.say(f"{home.root}  restored from {manifest['created']}; next: millrace up{flag}")
