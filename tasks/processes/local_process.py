"""A compute process on this host: its port, the connection to it, and its folder for temporary files.

A folder has a file that is locked while its owner lives, as the kernel releases the lock of a process that was killed:
it is removed with its process, and by the next run where nobody was left to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from tasks.errors import Failed, Lost
from tasks.processes.fork_server import fork_server
from tasks.processes.private_network import PrivateNetwork
from tasks.processes.workbench import Request

CLOSE_SECONDS = 10.0
"""Seconds that an idle process may take to exit after its connection is closed."""

TENSORFLOW_LOG = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl")
"""Prefixes of log lines of TensorFlow's C++ code, which stay in the log file and are not shown."""


class HeldPort:
    """A bound socket that does not listen: the kernel gives its port to nobody who asks for a free one.

    With SO_REUSEADDR on both sides a process may listen on such a port, as gRPC does.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind a port, or any free one where it is 0; raises `Failed` where that cannot be."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            rule = "the host is this one, and the port is free"
            raise Failed("train.cluster.hosts", f"{host}:{port}: {error.strerror}", rule, "correct it") from error
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        """`host:port`."""

    def close(self) -> None:
        """Release the port."""
        self._socket.close()


class Process:
    """A compute process and the connection to it."""

    def __init__(
        self,
        stage: str,
        log: Path,
        threads: int,
        rank: int = 0,
        address: str = "127.0.0.1:0",
        network: PrivateNetwork | None = None,
    ) -> None:
        """Start it; in a network of its own, where one is given."""
        parent_end, child_end = Pipe()
        self.connection: Connection = parent_end
        self.log, self.threads, self.rank, self.address = log, threads, rank, address
        self.host = socket.gethostname()
        self.seen: float | None = None
        log.parent.mkdir(parents=True, exist_ok=True)
        # TensorFlow leaves files in the folder for temporary files, and a process may be killed
        self._temporary = Temporary(stage)
        namespaces = () if network is None else network.descriptors
        server = fork_server(threads, log.with_name("fork-server.log"))
        with open(log, "ab") as output:
            self._read_to = output.tell()
            self.process = server.fork(stage, child_end.fileno(), output.fileno(), self._temporary.name, namespaces)
        child_end.close()

    def call(self, request: Request) -> None:
        """Send a request."""
        self.connection.send(request)

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and its children."""
        if (pid := self.process.begun()) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.connection.close()
        self._temporary.cleanup()

    def close(self) -> None:
        """Close the connection and wait until the process exits; kill it after `CLOSE_SECONDS`."""
        self.connection.close()
        if self.process.wait(CLOSE_SECONDS) is None:
            self.kill()
        self._temporary.cleanup()

    def lines(self) -> Iterator[str]:
        """Yield complete lines written to the log since the last call, without those of TensorFlow's C++ code."""
        if self.log.stat().st_size == self._read_to:
            return
        with open(self.log, "rb") as file:
            file.seek(self._read_to)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read_to += len(line)
                text = line.decode(errors="replace").rstrip()
                if text and not TENSORFLOW_LOG.match(text):
                    yield text

    def death(self, work: str, name: str) -> Failed:
        """Return the error for a process, called `name` in it, that ended without a result."""
        code = self.process.wait()
        assert code is not None
        saw = f"{name} was killed by signal {-code}" if code < 0 else f"{name} left with code {code}"
        lines = self.log.read_text(errors="replace").splitlines()
        last = [line.strip() for line in lines if line.strip() and not TENSORFLOW_LOG.match(line)][-1:]
        kind = Lost if code < 0 else Failed
        of_memory = ", and whether the system was out of memory (dmesg)" if code == -signal.SIGKILL else ""
        rule = "a compute process must answer"
        return kind(work, "; last log line: ".join([saw, *last]), rule, f"see {self.log}{of_memory}")


PREFIX = "millrace-"
OWNED = ".owned"
"""The locked file; a folder without it is being made."""


class Temporary:
    """A folder in that for temporary files."""

    def __init__(self, stage: str) -> None:
        self.name = tempfile.mkdtemp(prefix=f"{PREFIX}{stage}-")
        made = Path(self.name, f"{OWNED}.new")
        self._owned = os.open(made, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._owned, fcntl.LOCK_EX)
        made.rename(made.with_name(OWNED))

    def cleanup(self) -> None:
        """Remove it."""
        shutil.rmtree(self.name, ignore_errors=True)
        if self._owned >= 0:
            os.close(self._owned)
        self._owned = -1


def remove_left() -> None:
    """Remove the folders of owners that were killed."""
    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNED}"):
        try:
            descriptor = os.open(file, os.O_RDWR)
        except OSError:  # another user's, or gone
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(file.parent, ignore_errors=True)
        except OSError:  # its owner lives
            pass
        finally:
            os.close(descriptor)
