"""millrace verify: hash the artifacts in the store."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Refused
from tasks.runs.audit import Audit
from tasks.runs.home import find_home
from tasks.store.store import Store
from tasks.view import terminal


def verify(
    artifact: Annotated[str | None, typer.Argument(help="kind/digest or an unambiguous digest prefix.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of the store.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hash every file of an artifact or of all, check the audit log, and list damage. Exit code 1 after damage."""
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
            if not as_json:
                detail = f": {' '.join(fault)}" if fault else ""
                typer.echo(f"{'DAMAGED' if fault else 'intact':<8} {name}{detail}")
        audit = Audit(home)
        logs = 1 if everything and audit.path.exists() else 0
        if logs:
            name, broken = audit.path.name, audit.fault()
            if broken is not None:
                damaged.append({"artifact": name, "file": f"line {broken[0]}", "what": broken[1]})
            if not as_json:
                detail = f": line {broken[0]} {broken[1]}" if broken else ""
                typer.echo(f"{'DAMAGED' if broken else 'intact':<8} {name}{detail}")
        if not as_json:
            typer.echo(f"{len(paths) + logs - len(damaged)} intact, {len(damaged)} damaged")
        reply.add(checked=len(paths), damaged=damaged)
        reply.exit_code = 1 if damaged else 0
