"""The `millrace` command, one file per command."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Annotated

import typer

from flows.commands import (
    approve,
    backfill,
    backup,
    board,
    diff,
    doctor,
    down,
    drill,
    gc,
    predict,
    reject,
    restore,
    rollback,
    run,
    show,
    status,
    up,
    verify,
    why,
    worker,
)
from flows.commands import init as init_command
from flows.commands import list_ as list_command
from flows.flags import SETTINGS

LIBRARIES = ("tensorflow", "keras", "prefect", "mlflow")


def show_version(wanted: bool) -> None:
    """Print the version of Millrace and of the libraries that decide what it can do, and exit."""
    if wanted:
        typer.echo(f"millrace {installed('millrace')}")
        typer.echo(", ".join(f"{name} {installed(name)}" for name in LIBRARIES))
        raise typer.Exit


app = typer.Typer(
    name="millrace",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def millrace(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Show the versions, and exit.")
    ] = False,
) -> None:
    """Raw data to a trained, compressed, verified TensorFlow/Keras 3 model: exact, resumable, honest."""


app.command("run", context_settings=SETTINGS)(run.run)
app.command("worker", context_settings=SETTINGS)(worker.worker)
app.command("predict")(predict.predict)
app.command("drill", context_settings=SETTINGS)(drill.drill)
app.command("init")(init_command.init)
app.command("up")(up.up)
app.command("status")(status.status)
app.command("down")(down.down)
app.command("backfill", context_settings=SETTINGS)(backfill.backfill)
app.command("list")(list_command.list_)
app.command("show")(show.show)
app.command("verify")(verify.verify)
app.command("board")(board.board)
app.command("diff")(diff.diff)
app.command("why", context_settings=SETTINGS)(why.why)
app.command("approve")(approve.approve)
app.command("reject")(reject.reject)
app.command("rollback")(rollback.rollback)
app.command("gc")(gc.gc)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.command("doctor")(doctor.doctor)
