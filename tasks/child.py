"""A compute process: takes works from its parent one after the other, answers each with its outcome.

It stays in the parent's process group, dies with the parent, and on SIGTERM or SIGINT lets a work that asks
`stopping()` save at its next step; any other work is left at once, for its finished pieces are safe.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import logging
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

from tasks.errors import Stopped, UserError, of_the_machine
from tasks.tracking.journal import JournalFile
from tasks.workbench import Workbench

PR_SET_PDEATHSIG = 1


class Child:
    """The far end of `tasks.children.Process`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.signal_number = 0
        self.working = False
        self.asks = False
        self._mutex = threading.Lock()

    def serve(self) -> None:
        """Work until the parent hangs up."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        while True:
            try:
                request = self.connection.recv()
            except EOFError:
                return
            self._work(*request)

    def _work(self, work: str, staging: Any, journal: Path, threads: int, arguments: tuple[Any, ...]) -> None:
        self.working, self.asks = True, False
        try:
            module, _, name = work.partition(":")
            bench = Workbench(
                staging=staging,
                journal=JournalFile(journal),
                progress=lambda done, total, unit, **figures: self._say("progress", done, total, unit, figures),
                measure=lambda name, value: self._say("measure", name, value),
                stopping=self._stopping,
                threads=threads,
            )
            outcome = getattr(importlib.import_module(module), name)(bench, *arguments)
            self.working = False
            self._say("done", outcome)
        except Stopped as stop:
            self._say("stopped", stop.signal_number)
        except UserError as error:
            self._say("error", error)
        except MemoryError:
            self._say("crash", "MemoryError: out of memory")
        except Exception as error:
            with contextlib.suppress(OSError):  # the log may lie on the disk that is full
                traceback.print_exc()
            plain = _plain(error)
            self._say("crash" if isinstance(plain, str) else "error", plain)
        finally:
            self.working = False

    def _stopping(self) -> int:
        self.asks = True
        return self.signal_number

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        if self.working and not self.asks:
            raise Stopped(number)

    def _say(self, *message: Any) -> None:
        with self._mutex:
            try:
                self.connection.send(message)
            except BrokenPipeError:
                os._exit(1)


def _plain(error: Exception) -> OSError | str:
    """An error of the machine (disk full, no permission) is an OSError with a number; all else is our bug."""
    found = error if isinstance(error, OSError) and error.errno else of_the_machine(error)
    if found is not None and found.errno is not None:
        return OSError(found.errno, found.strerror or "", *([str(found.filename)] if found.filename else []))
    return f"{type(error).__name__}: {error}"


def main() -> None:
    """Die with the parent, then serve."""
    parent = int(sys.argv[2])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request above
        return
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("tasks").setLevel(logging.INFO)
    Child(Connection(int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
