"""The `millrace` command: what must be done before the long imports, and for a run, Prefect's server."""

from __future__ import annotations

import os
import sys


def leave_pythonpath() -> None:
    """Remove the folders of `PYTHONPATH` from the import path, apart from that of Millrace itself."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if "PYTHONPATH" in os.environ:
        given = {os.path.abspath(folder) for folder in os.environ.pop("PYTHONPATH").split(os.pathsep)}
        sys.path[:] = [path for path in sys.path if path not in given - {root}]
    os.environ["PYTHONSAFEPATH"] = "1"  # for the processes of libraries


leave_pythonpath()  # before another import, as a module in such a folder may have the same name

import contextlib
import signal
from typing import TYPE_CHECKING, Any

from tasks.environment import process
from tasks.errors import Stopped, UserError

if TYPE_CHECKING:
    from infra.embedded import EmbeddedServer


def main() -> None:
    """Run a command; usage errors too are one line and exit code 2."""
    process.install_stop_signals(stop)
    process.guard_output()
    process.bypass()
    process.pause()
    process.skip_at_exit()
    words = sys.argv[1:]
    try:
        server = start_server(words)
        import typer

        from flows.commands import app
        from flows.reply import usage_error

        process.resume()
        try:
            sys.exit(app(standalone_mode=False, obj=server))
        except typer.TyperException as error:
            sys.exit(usage_error(error, words))
    except Stopped as stopped:  # before a command began
        print(stopped, file=sys.stderr)
        sys.exit(stopped.exit_code)


def stop(number: int, frame: Any) -> None:
    """Raise `Stopped`; the handler of stop signals until a run installs its own."""
    if number == signal.SIGHUP:
        process.leave_terminal()
    raise Stopped(number)


def start_server(words: list[str]) -> EmbeddedServer | None:
    """Start Prefect's server if the command is a run that will need one; its import takes longest."""
    if words[:1] != ["run"] or {"-h", "--help"} & set(words):
        return None
    from flows.session import choose_servers, start_server_early
    from tasks.runs.home import find_home

    with contextlib.suppress(UserError, OSError):  # the command checks the same, and prints what is wrong
        home = find_home().readable()
        choose_servers(home)
        return start_server_early(home)
    return None


if __name__ == "__main__":
    main()
