"""The `millrace` command, one file per command."""

from __future__ import annotations

import sys

import typer

from flows.commands import (
    approve,
    backfill,
    backup,
    diff,
    doctor,
    down,
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
)
from flows.commands import init as init_command
from flows.commands import list_ as list_command
from flows.flags import SETTINGS
from flows.reply import stop_on_signals, usage_error
from tasks.errors import Stopped

app = typer.Typer(
    name="millrace",
    help="Raw data to a trained, compressed, verified TensorFlow/Keras 3 model: exact, resumable, honest.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("run", context_settings=SETTINGS)(run.run)
app.command("predict")(predict.predict)
app.command("init")(init_command.init)
app.command("up")(up.up)
app.command("status")(status.status)
app.command("down")(down.down)
app.command("backfill", context_settings=SETTINGS)(backfill.backfill)
app.command("list")(list_command.list_)
app.command("show")(show.show)
app.command("verify")(verify.verify)
app.command("diff")(diff.diff)
app.command("why", context_settings=SETTINGS)(why.why)
app.command("approve")(approve.approve)
app.command("reject")(reject.reject)
app.command("rollback")(rollback.rollback)
app.command("gc")(gc.gc)
app.command("backup")(backup.backup)
app.command("restore")(restore.restore)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run a command; usage errors too are one line and exit code 2."""
    stop_on_signals()
    try:
        sys.exit(app(standalone_mode=False))
    except typer.TyperException as error:
        sys.exit(usage_error(error, sys.argv[1:]))
    except Stopped as stop:
        sys.exit(stop.exit_code)
