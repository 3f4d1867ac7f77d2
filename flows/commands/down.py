"""millrace down: stop the stack."""

from __future__ import annotations

import typer

from flows.reply import AsJson, replying
from infra.stack import Stack, exclusive
from tasks.runs.home import find_home
from tasks.view import terminal


def down(as_json: AsJson = False) -> None:
    """Stop the processes that [bold]millrace up[/] started, and their children."""
    with replying("down", as_json) as reply:
        home = find_home()
        with exclusive(home.make().root), terminal.waiting("stopping the services; a training saves its state"):
            stopped = Stack(home.root).down(terminal.say)
        reply.add(stopped=stopped)
        if not as_json:
            typer.echo("stopped  " + ", ".join(stopped) if stopped else "no service was running")
