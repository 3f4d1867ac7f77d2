"""Where the hosts of a training meet: the chief's end.

Each of the other hosts connects to a port of the chief's, says its rank, and stays connected. For a call it gets the
request, starts a compute process, and passes its messages on. A host that is lost connects again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import Failed, Lost, Refused, UserError
from tasks.processes.config import ClusterConfig
from tasks.processes.messages import Channel, error_from_json, error_to_json, request_to_json
from tasks.processes.workbench import BEAT, Request

ACCEPT_AGAIN = 0.1
"""Seconds after an error until the next host is taken in."""


@dataclass(frozen=True)
class Joined:
    """A host that has connected."""

    rank: int
    host: str
    address: str
    """`host:port` on which its process may listen to the others."""
    channel: Channel
    threads: int
    processor: str


class RemoteProcess:
    """A compute process of another host, for one call."""

    def __init__(self, joined: Joined, stage: str, threads: int) -> None:
        self.rank, self.host, self.address = joined.rank, joined.host, joined.address
        self.stage, self.threads = stage, threads
        self._channel, self._died = joined.channel, "its connection has ended"
        self.log = Path(f"{joined.host}:{stage}-{joined.rank}.log")
        self.seen: float | None = None

    @property
    def connection(self) -> RemoteProcess:
        """What messages are received from: itself."""
        return self

    def fileno(self) -> int:
        """Return the file descriptor of the connection."""
        return self._channel.fileno()

    def recv(self) -> tuple[Any, ...]:
        """Receive a message; the end of the process is the end of the connection."""
        kind, *values = self._channel.recv()
        if kind == "died":
            self._died = str(values[0])
            raise EOFError
        if kind in ("error", "stopped", "interrupted"):
            return kind, error_from_json(values[0], self.host)
        return kind, *values

    def call(self, request: Request) -> None:
        """Send a request; an error of the connection is noticed when it is received from."""
        with contextlib.suppress(OSError):
            self._channel.send("call", self.stage, request_to_json(request))

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        with contextlib.suppress(OSError):
            self._channel.send("signal", number)

    def kill(self) -> None:
        """Close the connection: the other host kills the process, and connects again."""
        self._channel.close()

    def close(self) -> None:
        """Let the other host end the process, which is at the end of its call."""
        with contextlib.suppress(OSError):
            self._channel.send("close")

    def lines(self) -> Iterable[str]:
        """Return nothing: lines come as messages."""
        return ()

    def death(self, work: str, name: str) -> Failed:
        """Return the error for a process that ended without a result."""
        return Lost(work, f"{name}: {self._died}", "a compute process must answer", f"see the log on {self.host}")


class Rendezvous:
    """The hosts that have connected to this one."""

    def __init__(self, cluster: ClusterConfig, expects: dict[str, Any]) -> None:
        """Listen; a host whose values differ from `expects` (versions, settings by name) is refused.

        Raises:
            Failed: the port is in use, or the first host is not this one.
        """
        self.cluster, self._expects = cluster, expects
        self._joined: dict[int, Joined] = {}
        self._refused: dict[int, str] = {}
        """Why the host of a rank was not taken in, the last time."""
        self._mutex = threading.Lock()
        self._over = threading.Event()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind((cluster.chief, cluster.port))
        except OSError as error:
            self._listener.close()
            rule = "the first of train.cluster.hosts is this one, and train.cluster.port is free"
            saw = f"{cluster.chief}:{cluster.port}: {error.strerror}"
            raise Failed("train.cluster", saw, rule, "correct it, or run `millrace worker` here") from error
        self._listener.listen()
        for run in (self._accept, self._beat):
            threading.Thread(target=run, name="rendezvous", daemon=True).start()

    def missing(self) -> list[int]:
        """Return the ranks that have not joined, or have left."""
        for joined in self._all():
            if not joined.channel.open():
                self._forget(joined)
        here = {joined.rank for joined in self._all()}
        return [rank for rank in range(1, len(self.cluster.hosts)) if rank not in here]

    def wait(self, waiting: Callable[[str], None]) -> None:
        """Wait until all have joined; `waiting` is called with what is missing, and may raise.

        Raises:
            Failed: one has not joined within `train.cluster.wait` seconds.
        """
        until = time.monotonic() + self.cluster.wait
        while missing := self.missing():
            names = ", ".join(f"rank {rank} on {self.cluster.host(rank)}{self._why(rank)}" for rank in missing)
            if time.monotonic() > until:
                remedy = "run `millrace worker PRESET.yaml` there, or raise train.cluster.wait"
                rule = f"all hosts must join within {self.cluster.wait} s"
                raise Failed("train.cluster.hosts", f"{names} has not joined", rule, remedy)
            waiting(f"waiting for {names} to join at {self.cluster.chief}:{self.cluster.port}")
            time.sleep(0.1)

    def _why(self, rank: int) -> str:
        return f" ({self._refused[rank]})" if rank in self._refused else ""

    def process(self, rank: int, stage: str, threads: int) -> RemoteProcess:
        """Return the process of a rank for a call; raises `Lost` where its host has left."""
        joined = next((joined for joined in self._all() if joined.rank == rank), None)
        if joined is None:
            host = self.cluster.host(rank)
            raise Lost("train.cluster", f"rank {rank} on {host} has left", "all hosts must stay", "start it again")
        return RemoteProcess(joined, stage, threads)

    def machines(self) -> list[tuple[int, str]]:
        """Return threads and processor of the hosts that have joined, by rank."""
        return [(joined.threads, joined.processor) for joined in sorted(self._all(), key=lambda each: each.rank)]

    def close(self, exit_code: int, error: dict[str, str] | None) -> None:
        """Tell all how the run has ended, and stop listening."""
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for joined in self._all():
            with contextlib.suppress(OSError):
                joined.channel.send("end", exit_code, error)
            joined.channel.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError:  # a host that gave up, too many open files; or the end, which closes the listener
                self._over.wait(ACCEPT_AGAIN)
                continue
            threading.Thread(target=self._join, args=(connection, address[0]), daemon=True).start()

    def _join(self, connection: socket.socket, address: str) -> None:
        """Take a host in, or tell it why not."""
        channel, rank = Channel(connection), -1
        try:
            kind, values = channel.recv()
            if kind != "join":
                raise ValueError(kind)
            rank, host = int(values["rank"]), str(values["host"])
            self._check(rank, host, values)
            joined = Joined(
                rank, host, str(values["address"]), channel, int(values["threads"]), str(values["processor"])
            )
            channel.send("joined", BEAT)
        except UserError as error:
            self._refused[rank] = str(error)
            with contextlib.suppress(OSError):
                channel.send("refused", error_to_json(error))
            channel.close()
            return
        except (EOFError, OSError, ValueError, KeyError, TypeError, AttributeError):  # not one of ours
            channel.close()
            return
        with self._mutex:
            if self._over.is_set():  # `close` has told those that it knew of
                channel.close()
                return
            if (before := self._joined.get(rank)) is not None:
                before.channel.close()
            self._joined[rank] = joined
            self._refused.pop(rank, None)

    def _check(self, rank: int, host: str, values: dict[str, Any]) -> None:
        """Raise `Refused` where a host has another rank, other versions or other settings than this one."""
        if not 0 < rank < len(self.cluster.hosts):
            rule = f"train.cluster has {len(self.cluster.hosts)} hosts, whose ranks begin at 0"
            raise Refused("train.cluster.hosts", f"rank {rank} on {host}", rule, "correct the preset of that host")
        for name, expected in self._expects.items():
            if (value := values["expects"].get(name)) != expected:
                rule = f"{self.cluster.chief}, which runs the flow, has {expected}"
                raise Refused(name, f"{value} on {host}", rule, "use the same on all hosts")

    def _beat(self) -> None:
        """Show all that this host is there, and forget those that have gone."""
        while not self._over.wait(BEAT):
            for joined in self._all():
                try:
                    joined.channel.send("beat")
                except OSError:
                    self._forget(joined)

    def _forget(self, joined: Joined) -> None:
        joined.channel.close()
        with self._mutex:
            if self._joined.get(joined.rank) is joined:
                del self._joined[joined.rank]

    def _all(self) -> list[Joined]:
        with self._mutex:
            return list(self._joined.values())
