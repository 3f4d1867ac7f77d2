"""Servers that the runs of a test process share: to start its own is much of what a short run costs.

Where tests run in several processes, the one above them starts the servers, and all share them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from infra.embedded import EmbeddedServer
from tasks.processes.fork_server import SHARED, environment
from tasks.processes.threads import available_threads

PREFECT = "MILLRACE_TESTS_PREFECT"
"""The variable with the address of Prefect's server for all test processes."""

THREADS = (1, available_threads())
"""Of the fork servers."""


def start_for_all() -> None:
    """Start the servers, and name them to the processes that this one starts."""
    os.environ[SHARED], os.environ[PREFECT] = _start_fork_servers(), _start_prefect().url


def wait_for_fork_servers(folder: str) -> None:
    """A run that does not find the one for its threads starts its own."""
    while not all(Path(folder, f"{threads}.socket").exists() for threads in THREADS):
        time.sleep(0.02)


@cache
def shared_server() -> str:
    """The address of Prefect's server."""
    if given := os.environ.get(PREFECT):
        return given
    server = _start_prefect()
    server.wait()
    return server.url


@cache
def shared_fork_servers() -> str:
    """The folder with the sockets of the fork servers."""
    folder = os.environ.get(SHARED) or _start_fork_servers()
    wait_for_fork_servers(folder)
    return folder


def _start_prefect() -> EmbeddedServer:
    place = Path(tempfile.mkdtemp(prefix="millrace-prefect-"))
    server = EmbeddedServer(place / "prefect", place / "log")
    atexit.register(shutil.rmtree, place)
    atexit.register(server.stop)
    return server


def _start_fork_servers() -> str:
    folder = Path(tempfile.mkdtemp(prefix="millrace-forks-"))
    atexit.register(shutil.rmtree, folder)
    for threads in dict.fromkeys(THREADS):
        with open(folder / f"{threads}.log", "wb") as log:
            server = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "tasks.processes.shared_fork_server",
                    folder,
                    str(threads),
                    str(os.getpid()),
                ],
                env=environment(threads),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        atexit.register(server.wait)
        atexit.register(server.kill)
    return str(folder)
