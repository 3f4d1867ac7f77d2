"""The argument of a stage's work: staging, journal, progress reports, measurements, and stop requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tasks.artifacts import Outcome
from tasks.processes.pool import in_processes
from tasks.store.staging import Staging

Item = TypeVar("Item")
Result = TypeVar("Result")

BEAT = 2.0
"""Seconds between the messages by which a process of a gang shows that it is not frozen."""


class Journal(Protocol):
    """Receives metrics by step (`tasks.runs.journal`)."""

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


@dataclass(frozen=True)
class Workbench:
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

    role: str = "chief"
    """Role of this process in its gang."""

    rank: int = 0
    """Rank of this process; the chief has rank 0."""

    peers: tuple[str, ...] = ("chief",)
    """Roles of all processes of the gang, by rank."""

    addresses: tuple[str, ...] = ("127.0.0.1:0",)
    """`host:port` on which each process of the gang may listen, by rank."""

    hosts: tuple[str, ...] = ("localhost",)
    """The name of each one's host, by rank."""

    key: str = ""
    """Random, the same for all processes of the call: by it they know one another."""

    def share(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield `work(item)` of each item in order, computed by as many forked processes as there are threads."""
        return in_processes(work, items, self.threads)


__all__ = ["Journal", "Outcome", "Silence", "Workbench"]
