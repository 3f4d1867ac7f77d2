"""A call of a compute process, its time limits, and what a gang needs to know of each of its processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tasks.config.sources import SqlSource
from tasks.errors import Failed
from tasks.store.staging import Staging


@dataclass(frozen=True)
class Limits:
    """Time limits of a call."""

    field: str = "resources.timeout"
    """The config field that limits it."""
    seconds: float = float("inf")
    grace: float = 120.0
    """Seconds from a signal or the time-out until a process that has not exited is killed."""
    reminders: float = 10.0
    """Seconds between repetitions of a signal while the current step is awaited."""
    silence: float = 30.0
    """Seconds without a message after which a process of a gang counts as frozen."""


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
    hosts: tuple[str, ...] = ("localhost",)
    """The name of each one's host, by rank."""
    key: str = field(default="", repr=False)
    """Random, the same for all processes of the call: by it they know one another."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """The variables behind references among the arguments, which a compute process has not otherwise."""


def secrets_of(arguments: Iterable[Any]) -> dict[str, str]:
    """Return the variables that sources among the arguments refer to, as far as they are set."""
    names = [name for argument in arguments if isinstance(argument, SqlSource) for name in argument.secrets]
    return {name: os.environ[name] for name in names if name in os.environ}


class Sender(Protocol):
    """A connection to a process; `multiprocessing.connection.wait` waits for its messages."""

    def fileno(self) -> int: ...

    def recv(self) -> Any: ...


class ComputeProcess(Protocol):
    """A process of a gang: of this host (`local.Process`) or of another (`meeting.RemoteProcess`)."""

    rank: int
    host: str
    """Name of its host, for errors."""
    address: str
    """`host:port` on which it may listen."""
    threads: int
    log: Path
    seen: float | None
    """Time of its last message, on the monotonic clock."""

    @property
    def connection(self) -> Sender:
        """Its messages: `("done", result)`, `("error", error)`, `("crash", text)`, `("alive",)`, and reports for
        `OnReport`; after a signal `("stopped", stopped)` where the work has ended at a step, else
        `("interrupted", stopped)`."""
        ...

    def call(self, request: Request) -> None:
        """Send a request."""

    def send_signal(self, number: int) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """Kill it and its children."""

    def close(self) -> None:
        """End it after its call."""

    def lines(self) -> Iterable[str]:
        """Return the lines of its log since the last call of this method."""
        ...

    def death(self, work: str, name: str) -> Failed:
        """Return the error for a process, called `name` in it, that ended without a result."""
        ...
