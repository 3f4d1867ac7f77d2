"""The child's side of a compute process: receives a request, runs the work, and sends the outcome to its parent.

It ends with its parent. On SIGTERM or SIGINT, work that calls `stopping()` saves at its next step; any other work is
interrupted at once, as its finished pieces are safe. SIGHUP is ignored: a terminal sends it to all, and the parent
decides.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any

from tasks.errors import Stopped, UserError, of_the_machine
from tasks.processes import threads
from tasks.processes.workbench import BEAT, Silence, Workbench
from tasks.store.journal import JournalFile

if TYPE_CHECKING:
    from tasks.processes.workbench import Request


class Child:
    """Serves the requests of `tasks.processes.gang.Gang`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.signal_number = 0
        self.working = False
        self.checks_for_stop = False
        self._mutex = threading.Lock()

    def serve(self) -> None:
        """Serve requests until the parent closes the connection."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        while True:
            try:
                request = self.connection.recv()
            except EOFError:
                return
            self._work(request)

    def _work(self, request: Request) -> None:
        self.working, self.checks_for_stop = True, False
        beats = self._beating(request.peers)
        try:
            chief = self._send if request.rank == 0 else lambda *message: None
            bench = Workbench(
                staging=request.staging,  # type: ignore[arg-type]
                journal=JournalFile(request.journal) if request.journal else Silence(),
                progress=lambda done, total, unit, **figures: chief("progress", done, total, unit, figures),
                saving=lambda size: chief("saving", size),
                saved=lambda step: chief("saved", step),
                measure=lambda name, value: chief("measure", name, value),
                stopping=self._stopping,
                threads=request.threads,
                layout=request.layout,
                **request.membership,
            )
            if request.rank:  # what happens at a step is the same in all processes, and the chief says it
                logging.getLogger("tasks").setLevel(logging.WARNING)
            os.environ.update(request.secrets)
            threads.pin(request.threads)
            outcome = request.work.function(bench, *request.work.arguments)
            self.working = False
            self._send("done", outcome)
        except Stopped as stop:
            self._send("stopped" if self.checks_for_stop else "interrupted", stop)
        except UserError as error:
            self._send("error", error)
        except MemoryError:
            self._send("crash", "MemoryError: out of memory")
        except Exception as error:
            # what a library that the signal passed through made of it
            if self.signal_number and not self.checks_for_stop:
                self._send("interrupted", Stopped(self.signal_number))
                return
            with contextlib.suppress(OSError):  # the disk of the log may be full
                traceback.print_exc()
            plain = _sendable(error)
            self._send("crash" if isinstance(plain, str) else "error", plain)
        finally:
            self.working = False
            beats.set()

    def _beating(self, peers: tuple[str, ...]) -> threading.Event:
        """Tell the parent of a gang every `BEAT` seconds that this process is not frozen, until the event is set."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT):
                self._send("alive")

        if len(peers) > 1:
            self._send("alive")
            threading.Thread(target=beat, daemon=True).start()
        return over

    def _stopping(self) -> int:
        self.checks_for_stop = True
        return self.signal_number

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        if self.working and not self.checks_for_stop:
            raise Stopped(number)

    def _send(self, *message: Any) -> None:
        with self._mutex:
            try:
                self.connection.send(message)
            except BrokenPipeError:
                os._exit(1)


def _sendable(error: Exception) -> OSError | str:
    """Return an error of the machine (disk full, no permission) as an OSError, any other error as text."""
    of_machine = error if isinstance(error, OSError) and error.errno else of_the_machine(error)
    if of_machine is not None and of_machine.errno is not None:
        names = [str(of_machine.filename)] if of_machine.filename else []
        return OSError(of_machine.errno, of_machine.strerror or "", *names)
    return f"{type(error).__name__}: {error}"


def serve(connection: Connection) -> None:
    """Run a forked compute process."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("tasks").setLevel(logging.INFO)
    Child(connection).serve()
