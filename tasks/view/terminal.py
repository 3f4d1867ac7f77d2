"""Progress of a run on stderr: a line for each finished stage, and the progress of the current one.

On a terminal the current stage has a spinner, a bar and figures; elsewhere a line every few seconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tasks.view import seconds

EVERY = 5.0
"""Seconds between progress lines where stderr is not a terminal."""
SILENCE = 2.0
"""Seconds after which a line says what the command waits for."""
AGAIN = 60.0
"""Seconds after which another line says so, and then twice as long each time."""

BAR = 14
COLUMNS_BEFORE_FIGURES = BAR + 22

log = logging.getLogger("tasks.view.terminal")
"""Prefect stores the log records of the loggers below `tasks`."""

terminal = Console(stderr=True, highlight=False, soft_wrap=True)

_waits: dict[str, Callable[[], None]] = {}
"""What ends the wait that is shown, by its text."""


def say(text: str, style: str = "dim") -> None:
    """Print a line, and log it."""
    show(text, style)
    log.info(text.strip())


def show(text: str, style: str = "dim") -> None:
    """Print a line."""
    terminal.print(text, style=style, markup=False)


def wait(text: str) -> None:
    """Show what the command waits for until the next stage, wait or `settle`.

    On a terminal it is a line with a spinner; elsewhere a line after `SILENCE` seconds, and hardly any others.
    """
    settle()
    if is_live():
        status = Status(Text(text, style="dim"), console=terminal, spinner_style="cyan")
        status.start()
        _waits[text] = status.stop
    else:
        over = threading.Event()
        threading.Thread(target=_wait, args=(text, over), daemon=True).start()
        _waits[text] = over.set


def _wait(text: str, over: threading.Event) -> None:
    started, pause, again = time.monotonic(), SILENCE, AGAIN
    while not over.wait(pause):
        show(f"  … {text}, {time.monotonic() - started:.0f} s")
        pause, again = again, 2 * again


def settle() -> None:
    """End the waits."""
    while _waits:
        _waits.popitem()[1]()


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show what the command waits for within the block; after it, what it waited for before."""
    outer = list(_waits)
    wait(text)
    try:
        yield
    finally:
        settle()
        for before in outer:
            wait(before)


def is_live() -> bool:
    """Return whether stderr is a terminal on which lines can be redrawn."""
    return terminal.is_terminal and os.environ.get("TERM") != "dumb"


class Warnings(logging.Handler):
    """Prints the warnings that our code logs, as Prefect's own log is not shown."""

    def emit(self, record: logging.LogRecord) -> None:
        show(f"  ! {record.getMessage()}", style="yellow")


tasks_logger = logging.getLogger("tasks")
tasks_logger.setLevel(logging.INFO)
tasks_logger.addHandler(Warnings(logging.WARNING))


class Elapsed(ProgressColumn):
    """Column with the seconds since the stage began."""

    def render(self, task: Task) -> Text:
        return Text(seconds(float(round(task.elapsed or 0))).replace(".0 s", " s").rjust(5), style="dim")


class Stage:
    """The line of a stage."""

    def __init__(self, stage: str, name: str, bar: Progress | None) -> None:
        self.stage, self.bar = stage, bar
        self._figures = name if stage == "compress" else ""  # the stage with several artifacts
        self._task = bar.add_task("", total=None, stage=stage, figures=self._figures) if bar else None
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print a message about the stage."""
        say(f"  … {self.stage:<9} {text}")

    def progress(self, done: int, total: int, unit: str, figures: dict[str, Any]) -> None:
        """Update the progress; on a narrow terminal the last figures are left out."""
        parts = progress_in_words(done, total, unit, figures)
        if self.bar is None or self._task is None:
            self._figures = " · ".join(parts)
            return
        while len(parts) > 1 and len(" · ".join(parts)) > terminal.width - COLUMNS_BEFORE_FIGURES:
            parts.pop()
        self.bar.update(self._task, completed=done, total=total, figures=" · ".join(parts))

    def beat(self) -> None:
        """Print the elapsed time and the last progress."""
        spent = seconds(time.monotonic() - self._started)
        show(f"  … {self.stage:<9} {spent:>8}  {self._figures}".rstrip())

    def finish(self, text: str, cached: bool, took: float) -> None:
        """Print the line of the finished stage, with a text."""
        log.info("%s: %s, %s", self.stage, text, seconds(took))
        mark = Text("=" if cached else "+", "cyan" if cached else "green")
        if not is_live():
            terminal.print(Text.assemble("  ", mark, f" {self.stage:<9} {seconds(took):>8}  {text}"))
            return
        mark = Text("●" if cached else "✓", mark.style)
        line = Table.grid(padding=(0, 1))
        for width in (3, 9, 8, 0):
            line.add_column(width=width, justify="left" if width == 9 else "right", no_wrap=True)
        line.add_column()
        line.add_row(mark, self.stage, Text(seconds(took), "dim"), "", Text(text))
        terminal.print(line, soft_wrap=False)


def progress_in_words(done: int, total: int, unit: str, figures: dict[str, Any]) -> list[str]:
    """Format what is done of a total, and figures."""
    return [f"{unit} {done:,}/{total:,}", *figures_in_words(figures)]


def figures_in_words(figures: dict[str, Any]) -> list[str]:
    """Format figures by their names: `examples/s`, `step_ms`, `input_share`, losses; `now` is a text."""
    words = []
    for name, value in sorted(figures.items(), key=lambda item: item[0] != "seconds_left"):
        if name == "seconds_left":
            words.append(f"{seconds(value)} left")
        elif name == "now":
            words.append(value)
        elif name == "step_ms":
            words.append(f"{value:.1f} ms/step")
        elif name.endswith("_share"):
            words.append(f"{name.removesuffix('_share')} {value:.0%}")
        elif name.endswith("/s"):
            words.append(f"{value:,.0f} {name}")
        else:
            words.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return words


@contextmanager
def stage(name: str, what: str) -> Iterator[Stage]:
    """Show a stage while it runs."""
    settle()
    if not is_live():
        shown, over = Stage(name, what, None), threading.Event()
        threading.Thread(target=_beat, args=(shown, over), daemon=True).start()
        try:
            yield shown
        finally:
            over.set()
        return
    columns = (
        TextColumn(" "),
        SpinnerColumn(style="cyan"),
        TextColumn("{task.fields[stage]:<9}"),
        Elapsed(),
        BarColumn(bar_width=BAR),
        TextColumn("{task.fields[figures]}", style="dim"),
    )
    with Progress(*columns, console=terminal, transient=True) as bar:
        yield Stage(name, what, bar)


def _beat(shown: Stage, over: threading.Event) -> None:
    while not over.wait(EVERY):
        shown.beat()
