"""The `millrace` command: a file for each large command, or for those on the same thing."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands import (
    backfill,
    decisions,
    doctor,
    drill,
    forget,
    home,
    new,
    predict,
    run,
    runs,
    schedule,
    show,
    stack,
)
from flows.commands import init as init_command
from flows.launching import SETTINGS

LIBRARIES = ("tensorflow", "keras", "prefect", "mlflow")


def show_version(wanted: bool) -> None:
    """Print the version of Millrace and of the libraries that decide what it can do, and exit."""
    if wanted:
        from importlib.metadata import version as installed

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
app.command("worker", context_settings=SETTINGS)(run.worker)
app.command("predict")(predict.predict)
app.command("drill", context_settings=SETTINGS)(drill.drill)
app.command("init")(init_command.init)
app.command("new")(new.new)
app.command("up")(stack.up)
app.command("status")(stack.status)
app.command("down")(stack.down)
app.command("schedule", context_settings=SETTINGS)(schedule.schedule)
app.command("backfill", context_settings=SETTINGS)(backfill.backfill)
app.command("list")(runs.list_)
app.command("show")(show.show)
app.command("verify")(home.verify)
app.command("board")(runs.board)
app.command("diff")(runs.diff)
app.command("why", context_settings=SETTINGS)(runs.why)
app.command("approve")(decisions.approve)
app.command("reject")(decisions.reject)
app.command("rollback")(decisions.rollback)
app.command("gc")(home.gc)
app.command("forget")(forget.forget)
app.command("backup")(home.backup)
app.command("restore")(home.restore)
app.command("doctor")(doctor.doctor)
