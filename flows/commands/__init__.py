"""The `millrace` command, one file per command."""

from __future__ import annotations

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
