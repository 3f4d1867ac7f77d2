"""millrace verify: re-hash what the store holds."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Refused
from tasks.runs.audit import Audit
from tasks.runs.home import find_home
from tasks.store.store import Store


def verify(
    artifact: Annotated[str | None, typer.Argument(help="kind/digest or an unambiguous digest prefix.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every artifact of the store.")] = False,
    as_json: AsJson = False,
) -> None:
    """Re-hash every file of an artifact, or of all, and the audit log; name what is damaged. Exit code 1 if any is."""
    with replying("verify", as_json) as reply:
        home = find_home().readable()
        store = Store(home.store)
        if (artifact is None) == (not everything):
            raise Refused(
                "ARTIFACT", artifact or "nothing", "verify takes an artifact or --all", "millrace verify --all"
            )
        chosen = store.published() if artifact is None else [store.resolve(artifact).path]
        damaged = []
        for path in chosen:
            name, fault = f"{path.parent.name}/{path.name}", store.verify(path)
            if fault is not None:
                damaged.append({"artifact": name, "file": fault[0], "what": fault[1]})
            if not as_json:
                told = f": {' '.join(fault)}" if fault else ""
                typer.echo(f"{'DAMAGED' if fault else 'whole':<8} {name}{told}")
        audit = Audit(home)
        logs = 1 if everything and audit.path.exists() else 0
        if logs:
            name, broken = audit.path.name, audit.fault()
            if broken is not None:
                damaged.append({"artifact": name, "file": f"line {broken[0]}", "what": broken[1]})
            if not as_json:
                told = f": line {broken[0]} {broken[1]}" if broken else ""
                typer.echo(f"{'DAMAGED' if broken else 'whole':<8} {name}{told}")
        if not as_json:
            typer.echo(f"{len(chosen) + logs - len(damaged)} whole, {len(damaged)} damaged")
        reply.add(checked=len(chosen), damaged=damaged)
        reply.exit_code = 1 if damaged else 0
