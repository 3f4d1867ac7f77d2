"""SIGTERM and SIGINT of a run: a compute process at work saves and leaves first, everything else is left at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tasks.errors import Stopped, UserError


class Signals:
    """What one run has been sent, and who handled signals before it."""

    def __init__(self) -> None:
        self.number = 0
        """The last signal; 0 while there is none."""
        self.working = False
        """Whether a compute process is at work: it is sent the signal, saves, and leaves first."""
        self._before: dict[int, Any] = {}

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` after a signal that came while a compute process was at work, or that a library swallowed."""
        if self.number:
            raise Stopped(self.number)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals until the block ends, or `release` is called."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give signals back to whoever handled them before."""
        while self._before:
            signal.signal(*self._before.popitem())

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise `Stopped` for what a library makes of it that a signal passes through."""
        try:
            yield
        except (Stopped, UserError):
            raise
        except BaseException as error:
            if self.number:
                raise Stopped(self.number) from error
            raise

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.number = number  # and no word: the line that is interrupted may hold the lock of Prefect's log
        if not self.working:
            raise Stopped(number)
