"""The local stack in the background: started, mended, told of, stopped.

`stack.json` in the home says how the stack was asked for, which stays, and which processes were started, by id and
start time. It is written before anything is
waited for, so that `down` finds all of them even if `up` dies half-way; and every process of the stack, with whatever
it starts, carries the stack's mark in its environment, so that an orphan of a killed worker is found too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from infra import health
from infra.services import Layout, Service, services, surroundings
from tasks.errors import Failed, Refused

MARK = "MILLRACE_STACK"
PATIENCE = 180.0
"""Seconds for a service to work; a first start makes its database."""
HANGING = 10.0
"""Seconds that a living service may leave unanswered before it is started anew."""
GRACE = 30.0
"""Seconds between the request to leave and the kill: a training saves its state meanwhile."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Started:
    """A process as `stack.json` remembers it."""

    pid: int
    created: float

    @property
    def process(self) -> psutil.Process | None:
        """The very process, while it lives."""
        with contextlib.suppress(psutil.Error):
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.created) < 1 and lives(found):
                return found
        return None

    @property
    def since(self) -> str:
        """When it was started, ISO 8601."""
        return datetime.fromtimestamp(self.created, UTC).isoformat(timespec="seconds")

    @property
    def memory(self) -> int:
        """Bytes that it and its children hold alone or share."""
        found = self.process
        if found is None:
            return 0
        total = 0
        for process in (found, *found.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total


class Stack:
    """The stack of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._path = home / "stack.json"
        found = json.loads(self._path.read_bytes()) if self._path.exists() else {}
        self.mark: str = found.get("mark") or secrets.token_hex(8)
        self.started = {name: Started(**row) for name, row in found.get("started", {}).items()}
        layout = found.get("layout")
        self.layout = Layout(**{**layout, "home": home, "project": Path(layout["project"])}) if layout else None

    def living(self) -> dict[str, Started]:
        """What was started and still runs, by service."""
        return {name: started for name, started in self.started.items() if started.process is not None}

    def facts(self) -> dict[str, Any]:
        """Addresses and process ids of what is up, for `--json`."""
        layout, living = self.layout, self.living()
        return {
            "prefect_url": layout.prefect_url if layout and "prefect" in living else None,
            "mlflow_url": layout.mlflow_url if layout and "mlflow" in living else None,
            "pids": {name: started.pid for name, started in living.items()},
        }

    def log(self, name: str) -> Path:
        """Where a service writes."""
        return self.home / "logs" / f"{name}.log"

    def up(self, layout: Layout, say: Say) -> list[str]:
        """Start what is missing or does not answer; the names of what was started. Harms nothing that works.

        Raises:
            Failed: a port is somebody else's, the stack runs elsewhere, or a service does not come up.
        """
        if (living := self.living()) and self.layout and replace(self.layout, alert=layout.alert) != layout:
            here = f"it runs at {self.layout.prefect_url} and {self.layout.mlflow_url}"
            remedy = "millrace down first, or leave out what would change it"
            raise Failed("millrace up", here, "a home has one stack", remedy)
        wanted = services(layout)
        missing = [service for service in wanted if not self._keeps(service, living)]
        for service in missing:
            if service.port is not None:
                self._stop(list(self._left_by(service.name)))
            if service.port is not None and taken(layout.host, service.port):
                variable = "PREFECT_SERVER_API_PORT" if service.name == "prefect" else "MLFLOW_PORT"
                remedy = f"end it, or give another by --{service.name}-port or {variable}"
                raise Failed(
                    f"port {service.port}", f"in use by {health.holder(service.port)}", "it must be free", remedy
                )
        if layout != self.layout:
            self.layout = layout
            self._save()
        for service in missing:
            for name in service.before:
                self._await(next(other for other in wanted if other.name == name), say)
            say(f"starting {service.name}")
            self._start(service)
        for service in missing:
            self._await(service, say)
        return [service.name for service in missing]

    def down(self) -> list[str]:
        """Stop what `up` started and whatever that started; the names of what was running."""
        names = [name for name in reversed(self.started) if self.started[name].process is not None]
        for name in names:
            self._stop([self.started[name].process])
        self._stop(list(self._marked()))
        self.started = {}
        if self.layout is not None:
            self._save()
        return names

    def _keeps(self, service: Service, living: dict[str, Started]) -> bool:
        """Whether a service may stay as it is; one that lives and does not answer is ended."""
        if service.name not in living:
            return False
        deadline = time.monotonic() + HANGING
        while not service.works():
            if time.monotonic() > deadline:
                self._stop([living[service.name].process])
                return False
            time.sleep(0.2)
        return True

    def _start(self, service: Service) -> None:
        log = self.log(service.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        assert self.layout is not None
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as under `millrace up &` in a script: it is inherited
            signal.signal(signal.SIGINT, signal.default_int_handler)
        with open(log, "ab") as output:
            process = subprocess.Popen(
                service.command,
                cwd=self.layout.project,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=surroundings({**service.environment(), MARK: self.mark}),
                start_new_session=True,
            )
        self.started[service.name] = Started(process.pid, psutil.Process(process.pid).create_time())
        self._save()

    def _await(self, service: Service, say: Say) -> None:
        started, deadline, told = self.started[service.name], time.monotonic() + PATIENCE, time.monotonic()
        while not service.works():
            if started.process is None or time.monotonic() > deadline:
                saw = "it ended" if started.process is None else f"no answer in {PATIENCE:.0f} s"
                log = self.log(service.name)
                last = (log.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]
                raise Failed(service.name, f"{saw}; last log line: {last}", "it must work", f"see {log}")
            if time.monotonic() - told > 5:
                say(f"waiting for {service.name}")
                told = time.monotonic()
            time.sleep(0.1)

    def _stop(self, processes: list[psutil.Process | None]) -> None:
        """Ask to leave, first what they started: a worker that leaves kills its runs before they have saved."""
        alive = [process for process in processes if process is not None]
        family = []
        try:
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.suspend()  # or it would begin the next run in the place of the one that leaves
                    family += process.children(recursive=True)
            leave(family)
        finally:
            leave(alive)

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == self.mark:
                    yield process

    def _left_by(self, name: str) -> Iterator[psutil.Process]:
        """What a killed server's parent process left behind: it is in the session that began with it."""
        if name in self.started:
            for process in self._marked():
                with contextlib.suppress(ProcessLookupError):
                    if os.getsid(process.pid) == self.started[name].pid:
                        yield process

    def _save(self) -> None:
        assert self.layout is not None
        layout = {**vars(self.layout), "home": str(self.home), "project": str(self.layout.project)}
        found: dict[str, Any] = {
            "mark": self.mark,
            "layout": layout,
            "started": {name: vars(started) for name, started in self.started.items()},
        }
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(found, indent=1))
        new.replace(self._path)


def leave(processes: list[psutil.Process]) -> None:
    """Ask processes to leave; kill what stays."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
            process.resume()
    for process in staying(processes, GRACE):
        with contextlib.suppress(psutil.Error):
            process.kill()
    staying(processes, 5)


def staying(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Which of them still live after so many seconds. A zombie does not: its parent may be standing still."""
    deadline = time.monotonic() + seconds
    while (found := [process for process in processes if lives(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def lives(process: psutil.Process) -> bool:
    """Whether a process still runs."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """One `up` or `down` of a home at a time."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".stack.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def bindable(host: str) -> None:
    """Raise `Refused` unless servers can listen at this address: IPv4, and of this machine."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        saw = f"{host}: {getattr(error, 'strerror', None) or 'no name'}"
        rule = "servers listen at an IPv4 address or a name of this machine"
        raise Refused("--host", saw, rule, "127.0.0.1, or with --auth 0.0.0.0 for all of them") from None


def taken(host: str, port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe, contextlib.suppress(socket.gaierror):  # a name that is no more: the start tells
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1" if host == "0.0.0.0" else host, port)) == 0
    return False
