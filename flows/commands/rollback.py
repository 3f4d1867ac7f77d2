"""millrace rollback: make the previous champion champion again."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.decisions import Reason, account, checked
from flows.reply import AsJson, replying
from flows.session import registry_of
from tasks.runs.audit import Decision
from tasks.runs.home import find_home


def rollback(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The registered model.")],
    reason: Reason,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="An earlier champion; default: the previous one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Move the alias champion to the version that had it before; called again, to the one before that.

    The version that loses the alias does not become champion by its gate again; `--to` makes it champion.
    """
    with replying("rollback", as_json) as reply:
        reason = checked(reason)
        home = find_home().readable()
        from tasks.registry.rollback import roll_back

        with registry_of(home) as client:
            moved = roll_back(client, home, name, to, Decision.of_user(True, reason, account()))
        reply.add(model=name, before=moved.before, after=moved.after, scores=moved.scores)
        if not as_json:
            typer.echo(f"{name}@champion: version {moved.before} → version {moved.after} ({moved.scores})")
