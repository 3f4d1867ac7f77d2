"""Servers that the runs of a test process share: to start its own is much of what a short run costs.

Where tests run in several processes, the one above them starts the servers, and all share them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path

from infra.embedded import PATIENCE, EmbeddedServer
from tasks.processes import shared_fork_server
from tasks.processes.fork_server import SHARED, environment
from tasks.processes.threads import available_threads
from tests.support import warm

MILLRACE = Path(sys.executable).with_name("millrace")
"""The command as a user has it."""

PREFECT = "MILLRACE_TESTS_PREFECT"
"""The variable with the address of Prefect's server for all test processes."""

WARM = "MILLRACE_TESTS_WARM"
"""The variable with the folder of the warm `millrace` for all test processes."""

THREADS = (1, available_threads())
"""Of the fork servers."""


def start_for_all() -> None:
    """Start the servers, and name them to the processes that this one starts."""
    os.environ[SHARED], os.environ[PREFECT] = _start_fork_servers(), _start_prefect().url
    os.environ[WARM] = _start_warm()


def wait_for_fork_servers(folder: str) -> None:
    """A run that does not find the one for its threads starts its own."""
    deadline = time.monotonic() + PATIENCE
    for threads in THREADS:
        while not Path(folder, f"{threads}.socket").exists():
            assert time.monotonic() < deadline, Path(folder, f"{threads}.log").read_text()
            time.sleep(0.02)


@cache
def shared_server() -> str:
    """The address of Prefect's server."""
    if given := os.environ.get(PREFECT):
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{given}/health", timeout=5):
                return given
            assert time.monotonic() < deadline, f"{given} does not answer"
            time.sleep(0.02)
    server = _start_prefect()
    server.wait()
    return server.url


@cache
def shared_fork_servers() -> str:
    """The folder with the sockets of the fork servers."""
    folder = os.environ.get(SHARED) or _start_fork_servers()
    wait_for_fork_servers(folder)
    return folder


@cache
def warm_millrace() -> Path:
    """The `millrace` whose processes have their imports (`warm`)."""
    return Path(os.environ.get(WARM) or _start_warm(), "millrace")


def shell_path() -> str:
    """`PATH` of a shell that finds the warm `millrace` first, then what is installed beside the real one."""
    return os.pathsep.join([str(warm_millrace().parent), str(MILLRACE.parent), os.environ["PATH"]])


def _start_warm() -> str:
    folder = Path(tempfile.mkdtemp(prefix="millrace-warm-"))
    atexit.register(shutil.rmtree, folder)
    server = warm.start(folder, MILLRACE)
    atexit.register(server.wait)
    atexit.register(server.kill)
    return str(folder)


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
                [sys.executable, "-P", "-m", shared_fork_server.__name__, folder, str(threads), str(os.getpid())],
                env=environment(threads),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        atexit.register(server.wait)
        atexit.register(server.kill)
    return str(folder)
