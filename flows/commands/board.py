"""millrace board: TensorBoard of a run."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from flows.reply import AsJson, replying
from tasks.errors import Failed, Refused
from tasks.runs.home import find_home
from tasks.runs.runs import resolve_run


def board(
    run: Annotated[str, typer.Argument(help="A run's id or an unambiguous part of it.")],
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 6006,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Show the curves, histograms and trace of a run that was trained with train.tensorboard, until Ctrl-C.

    With --json, name the folder with these files, and start nothing.
    """
    with replying("board", as_json) as reply:
        from tasks.training.board import written_in

        found = resolve_run(find_home().readable(), run)
        folder = written_in(found.folder)
        if folder is None:
            rule = "has written nothing for TensorBoard"
            raise Refused("RUN", found.run_id, rule, "train it with --train.tensorboard true")
        if as_json:  # what a program needs to start it in its own way
            reply.add(run=found.run_id, folder=str(folder))
            return
        typer.echo(f"TensorBoard of {found.run_id}: http://{host}:{port}/  (Ctrl-C ends it)")
        if find_spec("xprof") is None:
            typer.echo("  The trace of its steps needs one more package: pip install 'millrace[trace]'")
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", str(port)]
        process = subprocess.Popen([*command, "--host", host], stderr=subprocess.PIPE, text=True)
        try:
            _, said = process.communicate()
        finally:
            process.terminate()
        last = (said.strip().splitlines() or ["no message"])[-1]
        raise Failed("board", last, "TensorBoard must run", "choose another --port, or see its message")
