"""The reply of a command: one line per error on stderr, a JSON object as the last line of stdout, an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tasks.errors import Failed, Refused, Stopped, UserError, of_the_machine
from tasks.runs.home import find_home

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")]

STATUS = {0: "completed", 1: "failed", 2: "refused", 3: "rejected"}


class Reply:
    """The reply of a command."""

    def __init__(self, command: str, as_json: bool) -> None:
        self.command, self.as_json = command, as_json
        self.fields: dict[str, Any] = {}
        self.exit_code = 0
        self.status: str | None = None
        self.error: dict[str, str] | None = None

    @property
    def seconds(self) -> float:
        """The seconds since the process of the command began, its imports included."""
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])  # see proc(5)
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")

    def add(self, **fields: Any) -> None:
        """Add fields to the JSON object."""
        self.fields.update(fields)

    def say(self, line: str) -> None:
        """Print a line for people: with `--json` nothing."""
        if not self.as_json:
            typer.echo(line)

    def fail(self, error: UserError) -> None:
        """Print an error; the first one sets exit code and status, and is in the JSON object."""
        print(f"error: {error}".replace("\n", " "), file=sys.stderr)
        if self.error is None:
            self.exit_code, self.status, self.error = (error.exit_code, error.status, error.as_json())

    def print(self) -> None:
        """Print the JSON object with `--json`."""
        if not self.as_json:
            return
        common = {
            "command": self.command,
            "status": self.status or STATUS[self.exit_code],
            "exit_code": self.exit_code,
            "error": self.error,
            "seconds": round(self.seconds, 3),
        }
        print(json.dumps({**common, **self.fields}, allow_nan=False, default=str), flush=True)


@contextmanager
def replying(command: str, as_json: bool) -> Iterator[Reply]:
    """Run the body of a command, print its reply, and exit with its code."""
    reply = Reply(command, as_json)
    try:
        yield reply
    except UserError as error:
        reply.fail(error)
    except Stopped as stop:
        reply.exit_code, reply.status = stop.exit_code, stop.status
        print(f"{stop}; run the same command again to continue", file=sys.stderr)
    except Exception as error:
        if (cause := of_the_machine(error)) is not None:
            rule, remedy = "the command must read and write there", "fix the cause, and run again"
            reply.fail(Failed(str(cause.filename or find_home().root), cause.strerror, rule, remedy))
        else:  # a bug
            traceback.print_exc()
            rule, remedy = "this is a bug of ours", "report it with the lines above"
            reply.fail(Failed(command, f"{type(error).__name__}: {error}", rule, remedy))
    try:
        reply.print()
    except UserError as error:
        reply.fail(error)
    raise typer.Exit(reply.exit_code)


def usage_error(error: typer.TyperException, arguments: list[str]) -> int:
    """Print the error of a wrong command line, and return the exit code."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "millrace"
    # addresses may have passwords
    saw = re.sub(r"://\S+", "://…", error.format_message()) or "no command"
    refused = Refused(path, saw, "see the usage", f"run {path} --help")
    command = next((word for word in arguments if not word.startswith("-")), "")
    reply = Reply(command, "--json" in arguments)
    reply.fail(refused)
    reply.print()
    return reply.exit_code
