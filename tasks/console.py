"""What a person sees of a run while it goes: a line per stage on stderr, a bar for the one at work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tasks.artifacts import Artifact
from tasks.pages.words import describe, seconds

EVERY = 5.0
"""Seconds between progress lines where stderr is not a terminal."""

terminal = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str, style: str = "dim") -> None:
    """One line for the person who waits."""
    terminal.print(text, style=style, markup=False)


class Stage:
    """The line of one stage."""

    def __init__(self, stage: str, name: str, bar: Progress | None) -> None:
        self.stage, self.name, self.bar = stage, name, bar
        self._task = bar.add_task("", total=None, stage=stage, figures="") if bar else None
        self._said = time.monotonic()

    def say(self, text: str) -> None:
        """Something the person should know now."""
        say(f"  … {self.stage:<9} {text}")

    def progress(self, done: int, total: int, unit: str, figures: dict[str, Any]) -> None:
        """How far the stage is."""
        told = " · ".join([f"{unit} {done:,}/{total:,}", *spell(figures)])
        if self.bar is not None and self._task is not None:
            self.bar.update(self._task, completed=done, total=total, figures=told)
        elif time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            self.say(told)

    def done(self, artifact: Artifact, cached: bool, took: float) -> None:
        """The stage's last word."""
        self.told(f"from the store: {describe(artifact)}" if cached else describe(artifact), cached, took)

    def told(self, text: str, cached: bool, took: float) -> None:
        """The stage's last word, in other words."""
        mark = ("=", "cyan") if cached else ("+", "green")
        if terminal.is_terminal:
            mark = ("●", "cyan") if cached else ("✓", "green")
        line = Text.assemble("  ", mark, f" {self.stage:<9} {text}  ", (seconds(took), "dim"))
        terminal.print(line)


def spell(figures: dict[str, Any]) -> list[str]:
    """Figures by the wording of their names: `examples/s`, `step_ms`, `input_share`, `seconds_left`, losses."""
    words = []
    for name, value in figures.items():
        if name == "seconds_left":
            words.append(f"{seconds(value)} left")
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
    """Show one stage at work."""
    if not terminal.is_terminal or os.environ.get("TERM") == "dumb":
        yield Stage(name, what, None)
        return
    columns = (
        TextColumn(" "),
        SpinnerColumn(),
        TextColumn("{task.fields[stage]:<9}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}", style="dim"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=terminal, transient=True) as bar:
        yield Stage(name, what, bar)
