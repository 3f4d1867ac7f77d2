"""The compute processes of a run: one for a stage's work, or a gang that starts and ends together."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from tasks.errors import Failed, Lost, Stopped
from tasks.processes.fork_server import fork_server
from tasks.processes.held_ports import HeldPorts
from tasks.processes.workbench import BEAT
from tasks.store.staging import Staging

FROZEN_SECONDS = 30.0
"""Seconds without a message after which a process of a gang counts as frozen."""

ATTRIBUTION_SECONDS = 10.0
"""Seconds in which the process is looked for that another one reported as lost."""

CLOSE_SECONDS = 10.0
"""Seconds that an idle process may take to exit after its connection is closed."""

REMIND_EVERY = 10.0
"""Seconds between reminders while the current step is awaited after a signal."""

TENSORFLOW_LOG = re.compile(r"[IWE]\d{4} |WARNING: All log messages before absl")
"""Prefixes of log lines of TensorFlow's C++ code, which stay in the log file and are not shown."""

OnReport = Callable[..., None]
"""Called with a process' reports: `("progress", ...)`, `("measure", ...)` or `("log", rank, line)`."""


@dataclass(frozen=True)
class Limits:
    """Time limits of a call."""

    field: str = "resources.timeout"
    """The config field that limits it."""
    seconds: float = 86_400.0
    grace: float = 120.0
    """Seconds from a signal or the time-out until a process that has not exited is killed."""


@dataclass(frozen=True)
class Request:
    """A call of `function(bench, *arguments)`, given as `module:function`."""

    work: str
    staging: Staging | None
    journal: Path | None
    threads: int
    arguments: tuple[Any, ...]
    layout: dict[str, Any]
    role: str = "chief"
    rank: int = 0
    peers: tuple[str, ...] = ("chief",)
    """The roles of all processes of the gang, by rank."""
    addresses: tuple[str, ...] = ("127.0.0.1:0",)
    """`host:port` on which each process of the gang may listen, by rank."""


class Process:
    """A compute process and the connection to it."""

    def __init__(self, stage: str, log: Path, threads: int, rank: int = 0) -> None:
        parent_end, child_end = Pipe()
        self.connection: Connection = parent_end
        self.log, self.threads, self.rank = log, threads, rank
        self.seen: float | None = None
        """Time of the last message, on the monotonic clock."""
        log.parent.mkdir(parents=True, exist_ok=True)
        # TensorFlow leaves files in the folder for temporary files, and a process may be killed
        self._temporary = tempfile.TemporaryDirectory(prefix=f"millrace-{stage}-", ignore_cleanup_errors=True)
        server = fork_server(threads, log.with_name("fork-server.log"))
        with open(log, "ab") as output:
            self._read_to = output.tell()
            self.process = server.fork(stage, child_end.fileno(), output.fileno(), self._temporary.name)
        child_end.close()

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

    def silent(self, seconds: float) -> bool:
        """Return whether the last message of a process of a gang is older."""
        return self.seen is not None and time.monotonic() - self.seen > seconds

    def death(self, work: str, name: str) -> Failed:
        """Return the error for a process, called `name` in it, that ended without a result."""
        code = self.process.wait()
        assert code is not None
        saw = f"{name} was killed by signal {-code}" if code < 0 else f"{name} left with code {code}"
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        kind = Lost if code < 0 else Failed
        return kind(work, f"{saw}; last log line: {last[0]}", "a compute process must answer", f"see {self.log}")


class Gang:
    """Processes that run a call together: all end when one fails, and only the chief (rank 0) writes."""

    def __init__(self, processes: Sequence[Process], roles: Sequence[str]) -> None:
        self.processes, self.roles = list(processes), tuple(roles)
        self._ports = HeldPorts(len(roles))
        self._reason: BaseException | None = None
        self._deadline = float("inf")
        self._lost: tuple[Lost, float] | None = None
        """What a process reported of another that does not answer, and when."""

    def call(
        self,
        work: str,
        staging: Staging | None,
        journal: Path,
        arguments: tuple[Any, ...],
        *,
        limits: Limits,
        on_report: OnReport,
        stop: Callable[[], int] = lambda: 0,
        say: Callable[[str], None] = lambda line: None,
        threads: int | None = None,
        layout: dict[str, Any] | None = None,
    ) -> Any:
        """Call `module:function` in every process, and return the chief's result.

        Args:
            staging: the chief's staging; None for work that writes nothing.
            on_report: receives progress, measurements and log lines.
            stop: returns the number of the signal after which to stop, or 0.
            say: called with lines for the user while the current step is awaited after a signal.
            threads: threads of TensorFlow; None for those of the crew.
            layout: recorded by the work.

        Raises:
            Lost: a process was killed.
            Failed: a process crashed, or the time-out has passed.
            Stopped: after a signal, when the processes have saved and exited or `limits.grace` has passed.

        An error raised by the work is raised again.
        """
        for process, role in zip(self.processes, self.roles, strict=True):
            chief = process.rank == 0
            process.connection.send(
                Request(
                    work,
                    staging if chief else None,
                    journal if chief else None,
                    threads or process.threads,
                    arguments,
                    layout or {},
                    role,
                    process.rank,
                    self.roles,
                    self._ports.addresses,
                )
            )
        started, reminded, outcome = time.monotonic(), 0.0, None
        working = {process.connection: process for process in self.processes}
        while working:
            ready = wait(list(working), 0.1)
            for process in self.processes:
                for line in process.lines():
                    on_report("log", process.rank, line)
            for connection in ready:
                process = working[connection]  # type: ignore[index]
                kind, *values = self._receive(process, work)
                if kind == "done":
                    del working[process.connection]
                    outcome = values[0] if process.rank == 0 else outcome
                elif kind == "error" and isinstance(values[0], Lost) and len(self.processes) > 1:
                    del working[process.connection]
                    self._lost = self._lost or (values[0], time.monotonic())
                elif kind != "alive":
                    self._handle(process, work, kind, values, on_report)
            now = time.monotonic()
            self._raise_if_lost(working.values(), work)
            if self._reason is None and (number := stop()):
                self._request_stop(number, Stopped(number), limits)
                reminded = now
            if self._reason is None and now - started > limits.seconds:
                self._request_stop(signal.SIGTERM, _late(work, limits), limits)
            if isinstance(self._reason, Stopped) and now - reminded > REMIND_EVERY:
                left = self._deadline - now
                say(f"waiting for the step under way, {max(left, 0):.0f} s more (resources.grace)")
                reminded = now
            if now > self._deadline:
                assert self._reason is not None
                raise self._reason
        if self._lost is not None:  # all have reported one another
            raise self._reason or self._lost[0]
        return outcome

    def kill(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.kill()
        self._ports.close()

    def close(self) -> None:
        """Close all processes."""
        for process in self.processes:
            process.close()
        self._ports.close()

    def _name(self, process: Process) -> str:
        """Return how an error names a process: of several, by rank and host."""
        return "its process" if len(self.processes) == 1 else f"rank {process.rank} on {socket.gethostname()}"

    def _raise_if_lost(self, working: Iterable[Process], work: str) -> None:
        """Raise `Lost` where a process is frozen, or where one reports that another does not answer.

        The one that does not answer is waited for a moment, to name it by what happened to it.
        """
        limit = FROZEN_SECONDS if self._lost is None else 3 * BEAT
        for process in working:
            if len(self.processes) > 1 and process.silent(limit):
                saw = f"{self._name(process)} has not answered for {limit:.0f} s"
                raise self._reason or Lost(work, saw, "a compute process must answer", f"see {process.log}")
        if self._lost is not None and time.monotonic() - self._lost[1] > ATTRIBUTION_SECONDS:
            raise self._reason or self._lost[0]

    def _request_stop(self, number: int, reason: BaseException, limits: Limits) -> None:
        """Send a signal to all processes, and set the deadline. They ignore SIGHUP, which a terminal sends to all."""
        self._reason, self._deadline = reason, time.monotonic() + limits.grace
        for process in self.processes:
            process.process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def _receive(self, process: Process, work: str) -> Any:
        try:
            message = process.connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._reason or process.death(work, self._name(process)) from None
        process.seen = time.monotonic()
        return message

    def _handle(self, process: Process, work: str, kind: str, values: list[Any], on_report: OnReport) -> None:
        if kind == "stopped":
            stopped: Stopped = values[0]
            if isinstance(self._reason, Stopped):
                raise Stopped(self._reason.signal_number, stopped.saved)
            raise self._reason or stopped
        if kind == "error":
            raise values[0]
        if kind == "crash":
            raise Failed(work, values[0], "this is a bug of ours", f"report it with {process.log}")
        on_report(kind, *values)


def _late(work: str, limits: Limits) -> Failed:
    return Failed(
        limits.field, f"{work} ran past {limits.seconds:.0f} s", "a stage ends in time", "raise it, run again"
    )


class Crew:
    """Starts the compute processes of a run, new ones for every call."""

    def __init__(self, logs: Path, threads: int) -> None:
        self.logs, self.threads = logs, threads

    @contextlib.contextmanager
    def gang(self, stage: str, roles: Sequence[str] = ("chief",)) -> Iterator[Gang]:
        """Start processes for a call, one for each role; the first is the chief.

        The log of rank r > 0 is `<stage>-<r>.log`.
        """
        names = [stage, *(f"{stage}-{rank}" for rank in range(1, len(roles)))]
        processes = [Process(stage, self.logs / f"{name}.log", self.threads, rank) for rank, name in enumerate(names)]
        gang = Gang(processes, roles)
        try:
            yield gang
        except BaseException:
            gang.kill()
            raise
        gang.close()
