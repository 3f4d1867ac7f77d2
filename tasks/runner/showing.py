"""How a stage is shown while it runs: in the terminal and as progress in Prefect, or, of a trial, not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tasks.display import terminal


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
