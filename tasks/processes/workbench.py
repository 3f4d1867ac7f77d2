"""What a stage's work is given: where to write, how to say how far it is, whether to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tasks.artifacts import Outcome
from tasks.store.staging import Staging


class Journal(Protocol):
    """Where metrics by step go (`tasks.runs.journal`)."""

    def append(self, step: int, metrics: dict[str, float]) -> None: ...


class Silence:
    """The journal of a process that is not the chief: nothing is written."""

    def append(self, step: int, metrics: dict[str, float]) -> None:
        """Write nothing."""


@dataclass(frozen=True)
class Workbench:
    """Everything around the work; the work itself is `def work(bench, *arguments) -> Outcome`."""

    staging: Staging
    """Where finished pieces lie, from this attempt and earlier ones."""

    journal: Journal
    """Metrics by step."""

    progress: Callable[..., None]
    """`progress(done, total, unit, **figures)`: how far the stage is, for the person who waits."""

    measure: Callable[[str, Any], None]
    """`measure(name, value)`: anything timed; goes to the run's measurements, never into an artifact."""

    stopping: Callable[[], int]
    """The number of the signal that asks to save and leave; 0 while there is none."""

    threads: int
    """CPU threads of this process."""

    layout: dict[str, Any] = field(default_factory=dict)
    """Under what it computes: `threads`, `strategy`, `devices`, `processor`."""

    role: str = "chief"
    """What this process is among those of its gang."""

    rank: int = 0
    """Its place among them; the chief has rank 0."""

    peers: tuple[str, ...] = ("chief",)
    """The roles of all of them, by rank."""


__all__ = ["Journal", "Outcome", "Silence", "Workbench"]
