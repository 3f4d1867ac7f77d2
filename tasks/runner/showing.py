"""How a stage is shown while it runs, and when the processes of a training start and are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from tasks.processes.config import Role
from tasks.runs.runs import Run
from tasks.view import terminal


class Shown(Protocol):
    """The line of a stage."""

    @property
    def progress(self) -> Callable[[int, int, str, dict[str, Any]], None]:
        """Takes what is done, the total, the unit and figures by name."""
        ...

    def say(self, text: str) -> None:
        """Show a message about the stage."""

    def finish(self, text: str, cached: bool, took: float) -> None:
        """Show its result."""


@dataclass(frozen=True)
class Line:
    """A line of the terminal whose progress is an artifact in Prefect, too."""

    line: terminal.Stage
    progress: Callable[[int, int, str, dict[str, Any]], None]

    def say(self, text: str) -> None:
        """Print a message about the stage."""
        self.line.say(text)

    def finish(self, text: str, cached: bool, took: float) -> None:
        """Print the line of the finished stage."""
        self.line.finish(text, cached, took)


@contextmanager
def in_terminal(stage: str, name: str) -> Iterator[Line]:
    """Show a stage in the terminal, and its progress in Prefect."""
    from tasks.tracking import prefect_page  # not before a run's servers start, which it would delay

    with terminal.stage(stage, name) as line, prefect_page.progress(stage, line.progress) as progress:
        yield Line(line, progress)


@dataclass(frozen=True)
class Quiet:
    """Shows messages alone; progress goes to a function."""

    name: str
    progress: Callable[[int, int, str, dict[str, Any]], None]

    def say(self, text: str) -> None:
        """Print a message."""
        terminal.say(f"  … {self.name:<9} {text}")

    def finish(self, text: str, cached: bool, took: float) -> None:
        """Show nothing."""


MOST = 200
"""Events that are kept, the newest."""


class Presence:
    """The events of the processes of a call."""

    def __init__(self, stage: str, roles: Sequence[Role], run: Run) -> None:
        self._stage, self._roles, self._run = stage, roles, run
        self._events: list[dict[str, Any]] = []
        self._running: set[int] = set()

    def note(self, rank: int, host: str, event: str) -> None:
        """Record that a process was "started", or what became of it; one process alone is not recorded."""
        if len(self._roles) == 1:
            return
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._events.append({"time": at, "rank": rank, "role": self._roles[rank].name, "host": host, "event": event})
        if event == "started":
            self._running.add(rank)
        elif self._roles[rank].replaced:
            self._running.discard(rank)
        else:
            self._running.clear()  # they end with it
        if event != "started" or len(self._running) == len(self._roles):  # once for all that start together
            from tasks.tracking import prefect_page  # by now it is imported; at the start it would delay the server

            self._run.measure(f"{self._stage}/processes", self._events[-MOST:])
            prefect_page.processes(self._stage, self._events[-MOST:])
