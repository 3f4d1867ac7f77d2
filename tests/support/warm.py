"""The command in processes that are forked from one which has imported Prefect and MLflow.

A new interpreter spends three seconds on these imports, in every run. `start(FOLDER)` makes `FOLDER/millrace`, which is
used like the real one: arguments, environment, working directory and files are those that it is given, signals are
passed on, and if it is killed its command is killed too. How the real one begins is for tests that start `MILLRACE`.

`FOLDER/flow` is `python -m flows.prefect_process` in this way: `up` of that command has it start the deployed runs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tasks.environment.process import exit_with_parent

COMMANDS = ("run", "worker", "init", "predict", "show", "list", "why", "diff", "gc", "verify")
"""Those that import much, and ask Prefect's server for nothing before its settings are read here (`run_command`)."""

LATER = (
    *("flows.__main__", "flows.commands", "graphviz", "pygments.formatters.html", "scipy.ndimage", "scipy.stats"),
    *("tasks.snapshots", "tasks.sources.sklearn", "tasks.evaluation.judging", "tasks.exporting.prediction"),
    *("tasks.compression.variants", "tasks.view.results", "tasks.registry.comparison", "tasks.registry.registry"),
    *("flows.prefect_process", "prefect.flow_engine", "prefect.deployments.runner", "prefect.cli.deploy"),
)
"""What a run imports when it comes to it, as far as most do."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

MAX_REQUEST = 128 << 10
"""Bytes of a request at most."""

UNTIL_EXIT = contextlib.ExitStack()
"""Prefect's settings of a command, never left: what it does at exit asks the same server."""

PROGRAM = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import json, os, signal, socket, sys
flow = sys.argv[0].endswith("/flow")
if sys.argv[1:2] == ["up"]:
    os.execv({python!r}, [{python!r}, "-P", "-m", {module!r}, "up", *sys.argv])
if not flow and sys.argv[1:2] not in {commands}:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
ignored = [number for number in {signals} if signal.getsignal(number) == signal.SIG_IGN]
control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect({address!r})
for number in {signals}:
    if number not in ignored:
        signal.signal(number, lambda number, frame: control.send(str(number).encode()))
asked = {{"flow": flow, "words": sys.argv[1:], "folder": os.getcwd(), "variables": dict(os.environ)}}
asked["ignored"] = ignored
socket.send_fds(control, [json.dumps(asked).encode()], [0, 1, 2])
code = int(control.recv(100))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""The programs in `FOLDER`. A shell begins it, since the first line of a script takes no path with a space; commands
that gain nothing it leaves to the real one."""


def start(folder: Path, real: Path) -> subprocess.Popen[bytes]:
    """Start the server, and make `folder/millrace`; a command waits until the imports are done."""
    address = folder / "warm.socket"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(address))
    listening.listen(100)
    given = {
        "python": sys.executable,
        "module": __name__,
        "commands": [[name] for name in COMMANDS],
        "real": str(real),
        "signals": [int(number) for number in SIGNALS],
        "address": str(address),
    }
    for program in (folder / "millrace", folder / "flow"):
        program.write_text(PROGRAM.format(**given))
        program.chmod(0o755)
    words = [sys.executable, "-P", "-m", __name__, str(listening.fileno()), str(os.getpid()), str(folder)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    with listening, open(folder / "warm.log", "wb") as log:
        return subprocess.Popen(
            words, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[listening.fileno()]
        )


def main() -> None:
    """Import what commands need, then serve one connection after another, each in a process of its own."""
    if sys.argv[1] == "up":
        up(*sys.argv[2:])
        return
    listening, parent, folder = sys.argv[1:]
    exit_with_parent(int(parent))
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    preload(Path(folder))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps those
    listener, me = socket.socket(fileno=int(listening)), os.getpid()
    while True:
        control, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            exit_with_parent(me)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(control)
            return
        control.close()


def up(program: str, *words: str) -> None:
    """Run the command, whose deployed runs begin by `flow` beside its program."""
    from flows.__main__ import main as command
    from infra import orchestration

    orchestration.FLOWS_FIRST = (str(Path(program).with_name("flow")),)  # type: ignore[assignment]
    sys.argv = [program, *words]
    command()


def preload(folder: Path) -> None:
    """Import as a command and a run do."""
    from flows import session

    os.environ.update({**session.ENVIRONMENT, "PREFECT_HOME": str(folder / "prefect")})
    import prefect.main  # noqa: F401

    from tasks.tracking import runs

    runs.import_database_store()
    for flow in ("dataset", "training", "pipeline", "tuning", "release"):
        session.import_prefect(flow)
    for module in LATER:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> None:
    """Fork the command, pass signals on to it, and answer how it ended; it ends with the connection."""
    message, files, _, _ = socket.recv_fds(control, MAX_REQUEST, 3)
    begun, me = os.pipe(), os.getpid()
    if (child := os.fork()) == 0:
        control.close()
        exit_with_parent(me)
        run_command(json.loads(message), files, begun)
        return
    for file in (*files, begun[1]):
        os.close(file)
    os.read(begun[0], 1)  # in a session of its own, or at its end
    ended = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([control, ended], [], [])
        if ended in ready:
            _, status = os.waitpid(child, 0)
            control.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        number = int(control.recv(100) or signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if number in (signal.SIGKILL, signal.SIGINT) else os.kill)(child, number)


def run_command(asked: dict[str, Any], files: list[int], begun: tuple[int, int]) -> None:
    """Be the process that was asked for; Prefect's settings are those of its environment."""
    from prefect.context import use_profile
    from prefect.settings import Profile

    import flows.__main__ as command
    from flows import session
    from flows.prefect_process import run as run_program

    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for end in begun:
        os.close(end)
    for each in SIGNALS:
        ignored = each in asked["ignored"]
        before = signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL
        signal.signal(each, signal.SIG_IGN if ignored else before)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["variables"])
    time.tzset()
    if asked["flow"]:
        UNTIL_EXIT.enter_context(use_profile(Profile(name="tests", settings={}), include_current_context=False))
        run_program(asked["words"])
        return
    sys.argv = ["millrace", *asked["words"]]
    command.leave_pythonpath()
    started, embedded = command.start_server, session.settings_for_embedded

    def read_settings() -> None:
        UNTIL_EXIT.enter_context(use_profile(Profile(name="tests", settings={}), include_current_context=False))

    def start_server(words: list[str]) -> Any:
        server = started(words)
        read_settings()
        return server

    def settings_for_embedded() -> Any:
        read_settings()
        return embedded()

    command.start_server, session.settings_for_embedded = start_server, settings_for_embedded
    command.main()


if __name__ == "__main__":
    main()
