"""What a compute process is asked to do, and the context that its work is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from tasks.config.base import Section
from tasks.errors import Failed
from tasks.processes.threads import in_processes
from tasks.store.staging import Staging

P = ParamSpec("P")
Item = TypeVar("Item")
Result = TypeVar("Result")
Made = TypeVar("Made", covariant=True)

BEAT = 2.0
"""Seconds between the messages by which a process of a gang shows that it is not frozen."""


class Journal(Protocol):
    """Receives metrics by step (`tasks.store.journal`)."""

    @property
    def reached(self) -> int:
        """The last step of a training that earlier attempts have logged; 0 where there was none."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where other files of the training belong, beside the journal; None where nothing is written."""
        ...

    def of(self, training: str) -> Journal:
        """Return the journal of one of several trainings, by its name."""
        ...

    def append(self, step: int, metrics: dict[str, float]) -> None: ...

    def sync(self) -> None:
        """Bring what is written to the disk."""
        ...


class Silence:
    """The journal of a process that is not the chief; writes nothing."""

    reached = 0
    folder = None

    def of(self, training: str) -> Silence:
        """Return it."""
        return self

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Write nothing."""

    def sync(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What a process knows of itself and of the others of its gang."""

    role: str = "chief"
    """Role of this process."""

    rank: int = 0
    """Rank of this process; the chief has rank 0."""

    peers: tuple[str, ...] = ("chief",)
    """Roles of all processes of the gang, by rank."""

    addresses: tuple[str, ...] = ("127.0.0.1:0",)
    """`host:port` on which each process of the gang may listen, by rank."""

    hosts: tuple[str, ...] = ("localhost",)
    """The name of each one's host, by rank."""

    key: str = field(default="", repr=False)
    """Random, the same for all processes of the call: by it they know one another."""

    @property
    def membership(self) -> dict[str, Any]:
        """These values by name, for another record that has them."""
        return {each.name: getattr(self, each.name) for each in fields(Membership)}


@dataclass(frozen=True)
class Workbench(Membership):
    """The context of a stage's work, a function `work(bench, *arguments) -> Outcome`."""

    staging: Staging
    """The artifact's staging, with finished pieces of this and earlier attempts; only the chief of a gang has it."""

    journal: Journal
    """Receives metrics by step."""

    progress: Callable[..., None]
    """`progress(done, total, unit, **figures)` reports the progress of the stage to the user."""

    measure: Callable[[str, Any], None]
    """`measure(name, value)` records a measured time or rate in the run, never in an artifact."""

    stopping: Callable[[], int]
    """Returns the number of the signal after which to save and return; 0 if there was none."""

    threads: int
    """CPU threads of this process."""

    saving: Callable[[int], None] = lambda size: None
    """`saving(size)` reports that a state of so many bytes is being written, which is waited for after a signal."""

    saved: Callable[[int], None] = lambda step: None
    """`saved(step)` reports that the state after a step is on the disk: the next attempt goes on from it."""

    layout: dict[str, Any] = field(default_factory=dict)
    """Layout of the computation: `threads`, `strategy`, `devices`, `micro_batches`, `processor`."""

    def share(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield `work(item)` of each item in order, computed by as many forked processes as there are threads."""
        return in_processes(work, items, self.threads)


@dataclass(frozen=True)
class Work(Generic[Made]):
    """A call of `function(bench, *arguments)`, to be made in a compute process."""

    function: Callable[..., Made]
    """Of a module that every process of Millrace can import: it is sent by its name."""
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.function.__module__}:{self.function.__name__}"


def work(
    function: Callable[Concatenate[Workbench, P], Result], *arguments: P.args, **keywords: P.kwargs
) -> Work[Result]:
    """Return a call whose arguments are checked against the function's, all of them by position."""
    assert not keywords
    return Work(function, arguments)


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
class Request(Membership):
    """Work, and what its process is told of itself and of the others."""

    work: Work[Any]
    staging: Staging | None
    journal: Path | None
    threads: int
    layout: dict[str, Any]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """The variables behind references among the arguments, which a compute process has not otherwise."""


def secrets_of(arguments: Iterable[Any]) -> dict[str, str]:
    """Return the variables that sections among the arguments refer to, as far as they are set."""
    names = [name for argument in arguments if isinstance(argument, Section) for name in argument.secrets]
    return {name: os.environ[name] for name in names if name in os.environ}


class Sender(Protocol):
    """A connection to a process; `multiprocessing.connection.wait` waits for its messages."""

    def fileno(self) -> int: ...

    def recv(self) -> Any: ...


class ComputeProcess(Protocol):
    """A process of a gang: of this host (`local_process.Process`) or of another (`rendezvous.RemoteProcess`)."""

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
