"""The compute processes of a run: one for a stage's work, or several that work together, also on other hosts."""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tasks.errors import Failed, Lost, Stopped
from tasks.processes.config import CHIEF, Role
from tasks.processes.local_process import HeldPort, Process
from tasks.processes.private_network import PrivateNetwork
from tasks.processes.rendezvous import Rendezvous
from tasks.processes.workbench import BEAT, ComputeProcess, Limits, Request, Result, Work, secrets_of
from tasks.store.staging import Staging

ATTRIBUTION_SECONDS = 10.0
"""Seconds in which the process is looked for that another one reported as lost."""

MOST_REPLACED = 3
"""How often processes are replaced before the chief has reported progress."""

SLOWEST_DISK = 20e6
"""Bytes a second at which a state is written at least; so long it is waited for beyond the grace."""

OnReport = Callable[..., None]
"""Called with reports: `("progress", ...)`, `("saving", bytes)`, `("saved", step)`, `("measure", ...)`,
`("log", rank, line)`, when a process starts or is lost `("process", rank, host, event)`, and after a signal, each time
that it changes, with the seconds that are left: `("stopping", seconds)`."""


class Gang:
    """Processes that run a call together: all end when one fails, and only the chief (rank 0) writes.

    After a signal the call ends when the chief has saved: the others have nothing to save, and are ready sooner. Those
    whose role serves end when the others have ended; one whose role is replaced is started again alone.
    """

    def __init__(self, start: Callable[[int], ComputeProcess], roles: Sequence[Role]) -> None:
        """Create a gang; `start` returns a new process for a rank."""
        self.processes = [start(rank) for rank in range(len(roles))]
        self.roles = tuple(roles)
        self._start = start
        self._reason: BaseException | None = None
        self._asked, self._deadline = 0.0, float("inf")
        self._lost: tuple[Lost, float] | None = None
        """What a process reported of another that does not answer, and when."""
        self._saved: str | None = None
        """The newest state that the chief has reported to be on the disk, such as "step 120"."""
        self._writing = 0
        """Bytes of the state that the chief is writing."""
        self._limits = Limits()
        self._replaced = 0
        """Number of processes that were replaced since the chief has reported progress."""

    def call(
        self,
        work: Work[Result],
        staging: Staging | None,
        journal: Path,
        *,
        limits: Limits,
        on_report: OnReport,
        stop: Callable[[], int] = lambda: 0,
        say: Callable[[str], None] = lambda line: None,
        threads: int | None = None,
        layout: dict[str, Any] | None = None,
    ) -> Result:
        """Do the work in every process, and return the chief's result.

        Args:
            staging: the chief's staging; None for work that writes nothing.
            on_report: receives progress, measurements and log lines.
            stop: returns the number of the signal after which to stop, or 0.
            say: called with lines for the user: a process is replaced; the current step is awaited after a signal.
            threads: threads of TensorFlow; None for those of the run.
            layout: recorded by the work.

        Raises:
            Lost: a process was killed.
            Failed: a process crashed, or the time-out has passed.
            Stopped: after a signal, when the chief has saved or `limits.grace` has passed; it names what is saved.

        An error raised by the work is raised again.
        """

        def request(process: ComputeProcess) -> Request:
            chief = process.rank == 0
            return Request(
                work,
                staging if chief else None,
                journal if chief else None,
                threads or process.threads,
                layout or {},
                secrets_of(work.arguments) if chief else {},
                role=self.roles[process.rank].name,
                rank=process.rank,
                peers=tuple(role.name for role in self.roles),
                addresses=tuple(one.address for one in self.processes),
                hosts=tuple(one.host for one in self.processes),
                key=key,
            )

        def start(process: ComputeProcess) -> None:
            process.call(request(process))
            on_report("process", process.rank, process.host, "started")

        def replace(process: ComputeProcess, error: Failed) -> None:
            what = str(error.saw).partition(";")[0].removeprefix(f"{self._name(process)} ")
            on_report("process", process.rank, process.host, what)
            del working[process.connection]
            new = self._replacement(process, error, say)
            start(new)
            working[new.connection] = new

        self._limits, key = limits, secrets.token_hex(32)
        for process in self.processes:
            start(process)
        outcome: Any = None
        started, reminded = time.monotonic(), 0.0
        awaited = {process.rank for process in self.processes if not self.roles[process.rank].serves}
        working = {process.connection: process for process in self.processes}
        while awaited and working:  # also after a report of a lost process, for the end of that process
            ready = wait(list(working), 0.1)  # type: ignore[arg-type]
            for process in self.processes:
                for line in process.lines():
                    on_report("log", process.rank, line)
            for connection in ready:
                process = working[connection]  # type: ignore[index]
                try:
                    kind, *values = process.connection.recv()
                except (EOFError, OSError):
                    replace(process, process.death(str(work), self._name(process)))
                    continue
                process.seen = time.monotonic()
                if kind == "done":
                    del working[process.connection]
                    awaited.discard(process.rank)
                    outcome = values[0] if process.rank == 0 else outcome
                elif kind == "error" and isinstance(values[0], Lost) and len(self.processes) > 1:
                    del working[process.connection]
                    self._lost = self._lost or (values[0], time.monotonic())
                elif kind in ("stopped", "interrupted") and not self._is_over(process, kind):
                    del working[process.connection]
                    awaited.discard(process.rank)
                    if self._reason is None:  # a time-out keeps its reason and its deadline
                        self._request_stop(values[0].signal_number, values[0], on_report)
                elif kind != "alive":
                    self._handle(process, str(work), kind, values, on_report)
            now = time.monotonic()
            for process in self._frozen(working.values()):
                replace(process, self._silence(process, str(work)))
            if self._reason is None and (number := stop()):
                self._request_stop(number, Stopped(number), on_report)
                reminded = now
            if self._reason is None and now - started > limits.seconds:
                self._request_stop(signal.SIGTERM, _late(str(work), limits), on_report)
            if isinstance(self._reason, Stopped) and now - reminded > limits.reminders:
                what = f"a checkpoint of {self._writing:,} bytes" if self._writing else "the step under way"
                say(f"waiting for {what}, {max(self._deadline - now, 0):.0f} s more (resources.grace)")
                self._signal(self._reason.signal_number)  # the first is lost while TensorFlow has a handler of its own
                reminded = now
            if now > self._deadline:
                assert self._reason is not None
                say(f"killed: not ready within {now - self._asked:.0f} s (resources.grace)")
                raise self._ended_by(self._reason)
        if awaited:  # all have reported one another
            assert self._lost is not None
            raise self._ended_by(self._reason or self._lost[0])
        return outcome

    def kill(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.kill()

    def close(self) -> None:
        """End all processes, of which those that serve are still working."""
        for process, role in zip(self.processes, self.roles, strict=True):
            if role.serves:
                process.kill()
            else:
                process.close()

    def _name(self, process: ComputeProcess) -> str:
        """Return how an error names a process: of several, by rank and host."""
        return "its process" if len(self.processes) == 1 else f"rank {process.rank} on {process.host}"

    def _replacement(self, process: ComputeProcess, error: Failed, say: Callable[[str], None]) -> ComputeProcess:
        """Return a new process for one that was lost; raise the error where its role is not replaced."""
        self._replaced += 1
        ending = self._reason is not None or self._lost is not None
        if not self.roles[process.rank].replaced or ending or self._replaced > MOST_REPLACED:
            raise self._ended_by(self._reason or error)
        say(f"{str(error.saw).partition(';')[0]}; starting another, the training goes on")
        process.kill()
        self.processes[process.rank] = self._start(process.rank)
        return self.processes[process.rank]

    def _frozen(self, working: Iterable[ComputeProcess]) -> list[ComputeProcess]:
        """Return the processes that have not answered for a time, shorter where another one reports that one is lost.

        The one that does not answer is waited for a moment, to name it by what happened to it.
        """
        if self._lost is not None and time.monotonic() - self._lost[1] > ATTRIBUTION_SECONDS:
            raise self._ended_by(self._reason or self._lost[0])
        if len(self.processes) == 1:
            return []
        since = time.monotonic() - self._patience
        return [process for process in working if process.seen is not None and process.seen < since]

    @property
    def _patience(self) -> float:
        """Seconds without a message after which a process counts as frozen."""
        return self._limits.silence if self._lost is None else 3 * BEAT

    def _silence(self, process: ComputeProcess, work: str) -> Lost:
        saw = f"{self._name(process)} has not answered for {self._patience:.0f} s"
        return Lost(work, saw, "a compute process must answer", f"see {process.log}")

    def _is_over(self, process: ComputeProcess, kind: str) -> bool:
        """Return whether the call is over when a process has stopped: the chief, or one without which no step ends.

        That is one that was interrupted before the work has asked whether to stop, while it was being set up.
        """
        return process.rank == 0 or (kind == "interrupted" and not self.roles[process.rank].serves)

    def _ended_by(self, reason: BaseException) -> BaseException:
        """Return why the call ends; a stop, or a time-out, says what is on the disk."""
        if isinstance(reason, Stopped):
            return Stopped(reason.signal_number, self._saved)
        if reason is self._reason and isinstance(reason, Failed) and self._saved is not None:
            return Failed(reason.field, f"{reason.saw}; {self._saved} is saved", reason.rule, reason.remedy)
        return reason

    def _request_stop(self, number: int, reason: BaseException, on_report: OnReport) -> None:
        """Send a signal to all processes but those that serve, and set the deadline."""
        self._reason, self._asked = reason, time.monotonic()
        self._set_deadline(on_report)
        self._signal(number)

    def _set_deadline(self, on_report: OnReport) -> None:
        """Give the step under way the grace, and a state that is being written the time that it may take besides."""
        self._deadline = self._asked + self._limits.grace + self._writing / SLOWEST_DISK
        on_report("stopping", self._deadline - time.monotonic())

    def _signal(self, number: int) -> None:
        """Send a signal to all processes but those that serve; they ignore SIGHUP, which a terminal sends to all."""
        for process, role in zip(self.processes, self.roles, strict=True):
            if not role.serves:
                process.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def _handle(self, process: ComputeProcess, work: str, kind: str, values: list[Any], on_report: OnReport) -> None:
        if kind == "progress":
            self._replaced = 0
        if kind == "saving":
            self._writing = values[0]
            if self._reason is not None:
                self._set_deadline(on_report)
        if kind == "saved":
            self._writing, self._saved = 0, f"step {values[0]}"
        if kind in ("stopped", "interrupted"):
            raise self._ended_by(self._reason or values[0])
        if kind == "error":
            raise values[0]
        if kind == "crash":
            raise Failed(work, values[0], "this is a bug of ours", f"report it with {process.log}")
        on_report(kind, *values)


def _late(work: str, limits: Limits) -> Failed:
    return Failed(
        limits.field, f"{work} ran past {limits.seconds:.0f} s", "a stage ends in time", "raise it, run again"
    )


class ProcessLauncher:
    """Starts the compute processes of a run, new ones for every call."""

    def __init__(self, logs: Path, threads: int, rendezvous: Rendezvous | None = None) -> None:
        """Create it; with a rendezvous, the processes of ranks above 0 are on the hosts that have joined it."""
        self.logs, self.threads, self.rendezvous = logs, threads, rendezvous

    @contextlib.contextmanager
    def gang(
        self, stage: str, roles: Sequence[Role] = (CHIEF,), waiting: Callable[[str], None] = lambda line: None
    ) -> Iterator[Gang]:
        """Start processes for a call, one for each role; the first is the chief.

        The log of rank r > 0 is `<stage>-<r>.log`. `waiting` is called with what other hosts are waited for. Several
        processes on one host have a network of their own; where that cannot be, `waiting` is called with a warning.
        """
        with contextlib.ExitStack() as held_open:
            hosts = self.rendezvous.cluster if self.rendezvous is not None and len(roles) > 1 else None
            if hosts is None:
                held = [HeldPort() for _ in roles]
                network = _network(waiting) if len(roles) > 1 else None
                if network is not None:
                    held_open.enter_context(network)
            else:
                assert self.rendezvous is not None
                self.rendezvous.wait(waiting)
                held, network = [HeldPort(hosts.chief, hosts.port_of(0))], None
            for port in held:
                held_open.callback(port.close)

            def start(rank: int) -> ComputeProcess:
                if rank and hosts is not None:
                    assert self.rendezvous is not None
                    return self.rendezvous.process(rank, stage, self.threads)
                name = f"{stage}-{rank}" if rank else stage
                return Process(stage, self.logs / f"{name}.log", self.threads, rank, held[rank].address, network)

            gang = Gang(start, roles)
            try:
                yield gang
            except BaseException:
                gang.kill()
                raise
            gang.close()


def _network(warn: Callable[[str], None]) -> PrivateNetwork | None:
    """Return a network for the processes of a gang; None, with a warning, where the system does not allow it."""
    try:
        return PrivateNetwork()
    except OSError as error:
        warn(
            f"whoever reaches this machine over its network reaches the processes of the training, which have no"
            f" network of their own ({error}; docs/how-to-cluster.md)"
        )
        return None
