"""The local stack in the background: start, restart of failed services, state, stop.

`stack.json` in the home stores the layout, and process id and start time of every service. It is written before `up`
waits for a service, so that `down` stops all of them even if `up` is killed. All processes of the stack, and those that
they start, have the same value of `MILLRACE_STACK` in their environment, so that orphans are stopped as well.
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

from infra.services import Layout, Service, services, surroundings, write_json
from tasks.environment.process import LogPart
from tasks.errors import Failed, Refused

MARK = "MILLRACE_STACK"
PATIENCE = 180.0
"""Seconds until a service must answer; the first start creates its database."""
HANGING = 10.0
"""Seconds without an answer after which a running service is restarted."""
REMIND = 30.0
"""Seconds after which a line names the service that is waited for."""
GRACE = 30.0
"""Seconds from SIGTERM to SIGKILL; a run that saves its state has as long as its record says (`stops_by`)."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Started:
    """A process in `stack.json`."""

    pid: int
    created: float

    @property
    def process(self) -> psutil.Process | None:
        """The process; None if it has ended (its id may belong to another process now)."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.created) < 1 and is_alive(process):
                return process
        return None

    @property
    def since(self) -> str:
        """Start time, ISO 8601."""
        return datetime.fromtimestamp(self.created, UTC).isoformat(timespec="seconds")

    @property
    def memory(self) -> int:
        """Resident bytes of the process and its children."""
        parent = self.process
        if parent is None:
            return 0
        total = 0
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total


class Stack:
    """The stack of a home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._path = home / "stack.json"
        self._logs: dict[str, LogPart] = {}
        stored = json.loads(self._path.read_bytes()) if self._path.exists() else {}
        self.mark: str = stored.get("mark") or secrets.token_hex(8)
        self.started = {name: Started(**row) for name, row in stored.get("started", {}).items()}
        layout = stored.get("layout")
        self.layout = Layout(**{**layout, "home": home, "project": Path(layout["project"])}) if layout else None

    def living(self) -> dict[str, Started]:
        """Return the running services."""
        return {name: started for name, started in self.started.items() if started.process is not None}

    def facts(self) -> dict[str, Any]:
        """Return addresses and process ids of the running services, for `--json`."""
        layout, living = self.layout, self.living()
        return {
            "prefect_url": layout.prefect_url if layout and "prefect" in living else None,
            "mlflow_url": layout.mlflow_url if layout and "mlflow" in living else None,
            "pids": {name: started.pid for name, started in living.items()},
        }

    def log(self, name: str) -> Path:
        """Return the path of a service's log."""
        return self.home / "logs" / f"{name}.log"

    def up(self, layout: Layout, say: Say) -> list[str]:
        """Start the services that do not run, restart those that do not answer, and return the names of both.

        Raises:
            Failed: a port is in use, the stack runs with another layout, or a service does not start.
        """
        if (living := self.living()) and self.layout and replace(self.layout, alert=layout.alert) != layout:
            here = f"it runs at {self.layout.prefect_url} and {self.layout.mlflow_url}"
            remedy = "run millrace down first, or leave out the options that change it"
            raise Failed("millrace up", here, "a home has one stack", remedy)
        wanted = services(layout)
        missing = [service for service in wanted if not self._is_working(service, living)]
        for service in missing:
            if service.port is not None:
                self._stop(list(self._left_by(service.name)))
            if service.port is not None and port_in_use(layout.host, service.port):
                variable = "PREFECT_SERVER_API_PORT" if service.name == "prefect" else "MLFLOW_PORT"
                remedy = f"stop that process, or choose another port with --{service.name}-port or {variable}"
                raise Failed(f"port {service.port}", f"in use by {holder(service.port)}", "it must be free", remedy)
        if layout != self.layout:
            self.layout = layout
            self._save()
        if missing:
            say(f"starting {', '.join(service.name for service in missing)}")
        for service in missing:
            for name in service.before:
                self._await(next(other for other in wanted if other.name == name), say)
            self._start(service)
        for service in missing:
            self._await(service, say)
        return [service.name for service in missing]

    def down(self, say: Say = lambda line: None) -> list[str]:
        """Stop all processes of the stack, and return the names of the services that were running."""
        names = [name for name in reversed(self.started) if self.started[name].process is not None]
        for name in names:
            self._stop([self.started[name].process], say)
        self._stop(list(self._marked()), say)
        self.started = {}
        if self.layout is not None:
            self._save()
        return names

    def _is_working(self, service: Service, living: dict[str, Started]) -> bool:
        """Return whether a service runs and answers; stop it if it runs and does not answer."""
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
        self._logs[service.name] = LogPart(log)
        assert self.layout is not None
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # inherited from `millrace up &` in a script
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
        started, deadline = self.started[service.name], time.monotonic() + PATIENCE
        reminded = time.monotonic()
        while not service.works():
            if started.process is None or time.monotonic() > deadline:
                saw = "its process ended" if started.process is None else f"no answer in {PATIENCE:.0f} s"
                log = self._logs.setdefault(service.name, LogPart(self.log(service.name)))
                saw = f"{saw}; it wrote: {log.cause()}"
                raise Failed(service.name, saw, "the service must start", f"see {log.path}")
            if time.monotonic() - reminded > REMIND:
                say(f"still waiting for {service.name}; its log is {self.log(service.name)}")
                reminded = time.monotonic()
            time.sleep(0.1)

    def _stop(self, processes: list[psutil.Process | None], say: Say = lambda line: None) -> None:
        """Stop processes after their children: a worker that exits kills its runs before they have saved."""
        alive = [process for process in processes if process is not None]
        family = []
        try:
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.suspend()  # a worker would start the next run otherwise
                    family += process.children(recursive=True)
            terminate(family, Saving(self.home, say).until)
        finally:
            terminate(alive)

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == self.mark:
                    yield process

    def _left_by(self, name: str) -> Iterator[psutil.Process]:
        """Yield the processes that remain in the session of a killed service."""
        if name in self.started:
            for process in self._marked():
                with contextlib.suppress(ProcessLookupError):
                    if os.getsid(process.pid) == self.started[name].pid:
                        yield process

    def _save(self) -> None:
        assert self.layout is not None
        layout = {**vars(self.layout), "home": str(self.home), "project": str(self.layout.project)}
        content: dict[str, Any] = {
            "mark": self.mark,
            "layout": layout,
            "started": {name: vars(started) for name, started in self.started.items()},
        }
        write_json(self._path, content)


class Saving:
    """The runs of a home that save their state, as their records say."""

    def __init__(self, home: Path, say: Say) -> None:
        self._home, self._say, self._since = home, say, time.time() - 1
        self._said = 0.0

    def until(self) -> float:
        """Return the time up to which a run needs that was signalled since, in seconds since 1970; 0 without one."""
        latest = max(map(self._of, self._home.glob("runs/*/run.json")), default=0.0)
        if latest > self._said + 1:
            self._say(f"a training saves its state, {latest - time.time():.0f} s at most")
            self._said = latest
        return latest

    def _of(self, path: Path) -> float:
        try:
            if path.stat().st_mtime < self._since:
                return 0.0
            record = json.loads(path.read_bytes())
            return float(record["stops_by"] or 0.0) if record["status"] == "running" else 0.0
        except (OSError, ValueError, KeyError):
            return 0.0


def terminate(processes: list[psutil.Process], until: Callable[[], float] = lambda: 0.0) -> None:
    """Send SIGTERM, and SIGKILL to the processes that still run after `GRACE`, and after `until`."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
            process.resume()
    running = wait_for_exit(processes, GRACE)
    while running and time.time() < until():
        running = wait_for_exit(running, 1)
    for process in running:
        with contextlib.suppress(psutil.Error):
            process.kill()
    wait_for_exit(processes, 5)


def wait_for_exit(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return the processes that still run after `seconds`. A zombie does not: its parent may be suspended."""
    deadline = time.monotonic() + seconds
    while (running := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return running


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def exclusive(home: Path) -> Iterator[None]:
    """Let one `up` or `down` of a home run at a time."""
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".stack.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_host(host: str) -> None:
    """Raise `Refused` unless servers can listen at this address: an IPv4 address or a name of this machine."""
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except (OSError, UnicodeError) as error:
        saw = f"{host}: {getattr(error, 'strerror', None) or 'unknown name'}"
        rule = "servers listen at an IPv4 address or a name of this machine"
        raise Refused(
            "--host", saw, rule, "use --host 127.0.0.1, or --host 0.0.0.0 with --auth for all addresses"
        ) from None


def port_in_use(host: str, port: int) -> bool:
    """Return whether a process listens on a port."""
    with (
        socket.socket() as probe,
        contextlib.suppress(socket.gaierror),
    ):  # an unknown name: starting the server reports it
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1" if host == "0.0.0.0" else host, port)) == 0
    return False


def holder(port: int) -> str:
    """Return which process listens on a port."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.Error, OSError):
        pass
    return "a process of another user"
