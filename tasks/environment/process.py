"""A process of Millrace's own: its interpreter, garbage collection, signals, output, proxies and log.

Neither the working directory nor `PYTHONPATH` is on their import path: a `json.py` in a folder of data would be
executed.

What is imported stays, and a collection searches all of it, so that imports take longer with Python's defaults
(docs/decisions.md, 2026-11-23).
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from tasks.errors import Failed

PYTHON = (sys.executable, "-P")
"""Begins the command line of such a process."""

SAFE = {"PYTHONSAFEPATH": "1"}
"""Does for the processes that it starts what `-P` does for itself."""


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for such a process."""
    return {name: value for name, value in variables.items() if name != "PYTHONPATH"} | SAFE


PR_SET_PDEATHSIG = 1


def exit_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; leave at once if it has ended already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


THRESHOLD = 50_000
"""Objects between two collections of the youngest; Python's default is 700. Libraries are also imported later, on use,
and a compiled function is traced with many objects."""


def pause() -> None:
    """Collect nothing until `resume`."""
    gc.disable()


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing within the context."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def skip_at_exit() -> None:
    """Skip the collection of all objects with which Python ends; the system frees their memory."""
    atexit.register(gc.freeze)


def resume() -> None:
    """Exclude existing objects from later collections, and collect new ones every `THRESHOLD` objects."""
    gc.freeze()
    gc.set_threshold(THRESHOLD)
    gc.enable()


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Handler = Callable[[int, FrameType | None], None]


def install_stop_signals(handler: Handler) -> dict[int, Any]:
    """Install a handler, and return the previous ones. Where SIGHUP is ignored, as by `nohup`, it stays ignored."""
    previous = {}
    for number in STOP_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            previous[int(number)] = signal.signal(number, handler)
    return previous


def leave_terminal() -> None:
    """Discard output to the terminal from now on; to write to one that was closed is an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)


class Output:
    """A text stream that discards its output once the reader of its pipe has gone: `millrace show RUN | head`.

    The command goes on, as it may be in the middle of its work. The same holds for a terminal that was closed: writing
    to it fails a moment before its SIGHUP arrives, which decides whether the command stops.
    """

    def __init__(self, stream: TextIO, name: str | None) -> None:
        """`name` is that of the error where it cannot be written; without a name there is none."""
        self._stream, self._name = stream, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._stream, attribute)

    def write(self, text: str) -> int:
        """Write a text; raises `Failed` where that is not possible, once."""
        if text == "":  # libraries probe a stream so, and take its error for another kind of stream
            return 0
        try:
            return self._stream.write(text)
        except OSError as error:
            self._leave(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered; raises `Failed` where that is not possible, once."""
        try:
            self._stream.flush()
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        """Discard the output from now on, also what is buffered."""
        closed = isinstance(error, BrokenPipeError) or (
            error.errno == errno.EIO and stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)
        )
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if self._name is not None and not closed:
            rule, remedy = "the command must be able to write its output", "write it to another file"
            raise Failed(self._name, error.strerror, rule, remedy) from None


def guard_output() -> None:
    """Let standard output and standard error be such streams."""
    sys.stdout = Output(sys.stdout, "standard output")
    sys.stderr = Output(sys.stderr, None)


LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bypass(*hosts: str) -> None:
    """Add the loopback addresses and `hosts` to `no_proxy`, which every HTTP client reads, in both spellings."""
    given = ",".join(os.environ.get(name, "") for name in ("no_proxy", "NO_PROXY"))
    excepted = dict.fromkeys(host for host in [*given.replace(" ", "").split(","), *LOOPBACK, *hosts] if host)
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(excepted)


EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit|Warning|NotFound|Refused)\b.*")
"""The line of a traceback that names the error; a server may log another one after it."""

LONGEST = 200


class LogPart:
    """The end of a log from now on, which is appended to by each start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = path.stat().st_size if path.exists() else 0

    def cause(self) -> str:
        """Return the last error that it names, or else its last line."""
        with open(self.path, "rb") as log:
            log.seek(self._begin)
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if EXCEPTION.fullmatch(line)]
        return (errors or lines or ["nothing"])[-1][:LONGEST]
