"""Compute processes in a fraction of a second: forked from one process that has imported what all of them need.

That process imports TensorFlow and Keras and computes nothing: TensorFlow starts its threads, and pins their number,
at the first operation, so a forked process is as good as one started from nothing. The standard library's own fork
server passes on the whole environment of its parent, and imports its parent's main module; this one gets only what
`environment` lets through, and ends with the process that started it.

Protocol: a request is one message with file descriptors: the child's connection, its log, a status pipe, and those of
the namespaces that it is to enter (`private_network`). Into the status pipe go two lines: the child's process id when
it begins, its exit code when it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tasks.environment import process
from tasks.environment.process import PYTHON, SAFE, STOP_SIGNALS, exit_with_parent
from tasks.errors import Failed
from tasks.processes import private_network

CHILD = "tasks.processes.child"
"""Whose `serve` a forked process runs; above this module, so that it is imported by name."""

PRELOADED = (
    "tasks.config",  # first: pydantic looks for the docstrings of the fields in every module that is imported
    "tasks.records.config",
    "tasks.compression.stored",
    "numpy",
    "tensorflow",
    "keras",
    "sklearn.metrics",
    "tasks.artifacts",
    "tasks.feed",
    "tasks.models",
    CHILD,
)
"""Modules that are imported once, in this order, before the first process is forked."""

COMPUTE = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_FLAG_SAVED_MODEL_FINGERPRINTING": "0",  # a random uuid in every SavedModel
    "KERAS_BACKEND": "tensorflow",
    "KERAS_HOME": f"{os.devnull}/keras",  # where no settings are: those of the user would decide models
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}

PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|PYTHON(?!PATH)\w*|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|(?:CUDA|NVIDIA|NCCL|TF|TFDS|XLA|OMP|MKL|KMP|ONEDNN|MALLOC|GLIBC)_\w+|MILLRACE_HOME"
    r"|(?:SSL_CERT|REQUESTS_CA)_\w+|(?:https?|no|HTTPS?|NO)_(?:proxy|PROXY)"
)
"""Variables that a compute process gets: where files are and how to compute; no addresses and no secrets."""

SHARED = "MILLRACE_FORK_SERVERS"
"""Names a folder with the sockets of shared fork servers: `2.socket` for 2 threads (`shared_fork_server`)."""

MAX_REQUEST, MOST_DESCRIPTORS = 128 << 10, 5
"""Bytes and file descriptors of a request at most."""

PR_SET_NAME = 15


def environment(threads: int) -> dict[str, str]:
    """Return the variables of a compute process with this number of threads."""
    passed_on = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    return {**passed_on, **COMPUTE, **SAFE, "OMP_NUM_THREADS": str(threads)}


def set_process_name(title: str) -> None:
    """Call this process so in `ps` and `top`; the kernel keeps 15 bytes."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, title.encode()[:15])


class Forked:
    """A process that was asked for; it begins as soon as the fork server has done its imports."""

    def __init__(self, status: Connection) -> None:
        self._status = status
        self._pid: int | None = None
        self._returncode: int | None = None

    def begun(self) -> int | None:
        """Wait until it has begun, and return its process id; None if it ended before."""
        while self._pid is None and self._returncode is None:
            self._read(None)
        return self._pid

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs or has not begun."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it has ended, and return its exit code; None after `timeout` seconds."""
        while self._returncode is None and self._read(timeout):
            pass
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal once it has begun, unless it has ended."""
        self.begun()
        if self.poll() is None and self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _read(self, timeout: float | None) -> bool:
        """Take the next line of the status pipe; whether there was one within `timeout` seconds."""
        if self._returncode is not None or not self._status.poll(timeout):
            return False
        try:
            word, number = self._status.recv_bytes().split()
        except (EOFError, OSError):  # the fork server itself was killed, and its children with it
            self._returncode = -signal.SIGKILL
            return True
        if word == b"pid":
            self._pid = int(number)
        else:
            self._returncode = int(number)
        return True


class ForkServer:
    """The near end: one process that forks compute processes with a given number of threads."""

    def __init__(self, threads: int, log: Path) -> None:
        self.threads, self.log = threads, log
        self.process: subprocess.Popen[bytes] | None = None
        """None for a shared fork server."""
        self._control = self._connect() or self._start()

    def _connect(self) -> socket.socket | None:
        """Connect to the shared fork server that the environment names; None where there is none for `threads`."""
        folder = os.environ.get(SHARED)
        address = Path(folder or "", f"{self.threads}.socket")
        if folder is None or not address.exists():
            return None
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.connect(str(address))
        return control

    def _start(self) -> socket.socket:
        control, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                [*PYTHON, "-m", "tasks.processes.fork_server", str(child_end.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[child_end.fileno()],
                env=environment(self.threads),
            )
        child_end.close()
        return control

    def ended(self) -> bool:
        """Return whether its process has ended by itself; false for a shared one, whose requests then fail."""
        return self.process is not None and self.process.poll() is not None

    def fork(self, stage: str, connection: int, log: int, temporary: str, namespaces: Sequence[int] = ()) -> Forked:
        """Ask for a process that serves `connection` and writes to `log`, both file descriptors.

        It works in the folder of this process, and in the namespaces of these file descriptors; its temporary files are
        in the folder `temporary`.

        Raises `Failed` where the fork server has ended by itself, with its last log line.
        """
        read_end, child_end = os.pipe()
        try:
            variables = {**environment(self.threads), "TMPDIR": temporary}
            request = {"stage": stage, "environment": variables, "folder": str(Path.cwd())}
            socket.send_fds(self._control, [json.dumps(request).encode()], [connection, log, child_end, *namespaces])
        except BrokenPipeError:
            if self.process is None:
                rule, remedy = "a shared fork server runs as long as its runs", f"start it again, or unset {SHARED}"
                raise Failed(SHARED, "its fork server has ended", rule, remedy) from None
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            saw = f"it ended with code {self.process.wait()}; last log line: {last[0]}"
            raise Failed("fork server", saw, "it must import TensorFlow and Keras", f"see {self.log}") from None
        finally:
            os.close(child_end)
        return Forked(Connection(read_end, writable=False))

    def close(self) -> None:
        """End it and all processes that it forked."""
        self._control.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()


_servers: dict[int, ForkServer] = {}
_starting = threading.Lock()


def fork_server(threads: int, log: Path) -> ForkServer:
    """Return this process' fork server for a number of threads; start it at the first call and after its death."""
    with _starting:
        server = _servers.get(threads)
        if server is None or server.ended():
            server = _servers[threads] = ForkServer(threads, log)
            atexit.register(server.close)
        return server


class Forker:
    """The far end: forks on request, reaps, and reports how each process ended."""

    def __init__(self, control: socket.socket, serve: Callable[[Connection], None]) -> None:
        self._control, self._serve = control, serve
        self._statuses: dict[int, Connection] = {}
        self._woken, self._wakes = os.pipe()
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Serve until the process that started this one is gone."""
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        selector = selectors.DefaultSelector()
        selector.register(self._control, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == self._woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    self._reap()
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._control, MAX_REQUEST, MOST_DESCRIPTORS)
                if not message:
                    return
                self._fork(json.loads(message), *descriptors)

    def _fork(self, request: dict[str, Any], connection: int, log: int, status: int, *namespaces: int) -> None:
        report, me = Connection(status, readable=False), os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                private_network.enter(namespaces)
                exit_with_parent(me)  # afterwards: the kernel forgets it in a new user namespace
                set_process_name(f"millrace {request['stage']}")
                report.close()
                self._become(request["environment"], request["folder"], connection, log, namespaces)
                code = 0
            except Exception:
                traceback.print_exc()  # into its log
            finally:
                with contextlib.suppress(OSError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        for descriptor in (connection, log, *namespaces):
            os.close(descriptor)
        self._statuses[pid] = report
        self._send_status(pid, f"pid {pid}")

    def _become(
        self, variables: dict[str, str], folder: str, connection: int, log: int, namespaces: Sequence[int]
    ) -> None:
        """Set up the new process, and serve."""
        import numpy as np

        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):  # SIGHUP is meant for the command
            signal.signal(number, signal.SIG_DFL)
        self._control.close()
        for status in self._statuses.values():
            status.close()
        for end in (self._woken, self._wakes, *namespaces):
            os.close(end)
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(folder)
        tempfile.tempdir = None  # derived again from the variables
        np.random.seed()  # every child would otherwise have the same state
        self._serve(Connection(connection))

    def _reap(self) -> None:
        while self._statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in self._statuses:
                self._send_status(pid, f"exit {os.waitstatus_to_exitcode(status)}")
                self._statuses.pop(pid).close()

    def _send_status(self, pid: int, line: str) -> None:
        with contextlib.suppress(OSError):  # nobody waits for it any more
            self._statuses[pid].send_bytes(line.encode())


def preload() -> Callable[[Connection], None]:
    """Import what compute processes need, and return the function that they run."""
    process.pause()
    for module in PRELOADED:
        importlib.import_module(module)
    serve: Callable[[Connection], None] = importlib.import_module(CHILD).serve
    process.resume()  # the memory of what is imported stays shared with the forked processes
    return serve


def main() -> None:
    """Import what all compute processes need, then fork them."""
    exit_with_parent(int(sys.argv[2]))
    for number in STOP_SIGNALS:  # meant for those at work, which leave by themselves; this one ends with its parent
        signal.signal(number, signal.SIG_IGN)
    Forker(socket.socket(fileno=int(sys.argv[1])), preload()).run()


if __name__ == "__main__":
    main()
