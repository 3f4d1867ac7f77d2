"""millrace rollback: the champion before the present one, again."""

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
    to: Annotated[str | None, typer.Option("--to", metavar="VERSION", help="Which version that was champion.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move the alias champion back to the version that had it before; once more, and it goes one further back.

    The version that it leaves does not become champion by its gate again; `--to` takes it back.
    """
    with replying("rollback", as_json) as reply:
        because = checked(reason)
        home = find_home().readable()
        from tasks.registry.rollback import roll_back

        with registry_of(home) as client:
            moved = roll_back(client, home, name, to, Decision.of_user(True, because, account()))
        reply.add(model=name, before=moved.before, after=moved.after, scores=moved.scores)
        if not as_json:
            typer.echo(f"{name}@champion: version {moved.before} → version {moved.after} ({moved.scores})")
