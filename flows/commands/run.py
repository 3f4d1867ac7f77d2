"""millrace run: run a flow."""

from __future__ import annotations

import typer

from flows.launching import connect, launch, parse, title
from flows.reply import AsJson, replying
from tasks.environment import process
from tasks.runs.home import find_home


def run(
    context: typer.Context,
    new: bool = typer.Option(False, "--new", help="Start a new run, even if one of the same config is unfinished."),
    as_json: AsJson = False,
) -> None:
    """Run a flow: [bold]millrace run [FLOW] [PRESET.yaml] [--dotted.key VALUE ...] [--new] [--json][/]

    FLOW is pipeline (default), dataset, training, release or tuning. Every key of the config is a flag:
    --train.steps 200 --records.splits '{train: 0.8, validation: 0.1, test: 0.1}'. An unfinished run of the same
    flow and config is continued.
    """
    with replying("run", as_json) as reply:
        name, preset, flags = parse(context.args)
        process.pause()
        home = find_home().readable()
        server = connect(home, context.obj)
        from tasks.config.compose import load
        from tasks.view import terminal

        config = load(preset, flags, terminal.say)
        launch(reply, name, config, home, server, new=new, title=title(name, preset))
