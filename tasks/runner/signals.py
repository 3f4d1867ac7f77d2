"""What interrupts a run: stop signals, and lost processes, which are started again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tasks.environment import process
from tasks.errors import Failed, Lost, Stopped, UserError


class Signals:
    """The signals of a run, and the previous handlers."""

    def __init__(self) -> None:
        self.number = 0
        """Number of the last signal; 0 if there was none."""
        self._working = 0
        self._mutex = threading.Lock()
        self._before: dict[int, Any] = {}

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` after a signal that came during a compute process' work or that a library ignored."""
        if self.number:
            raise Stopped(self.number)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Do within the block what a signal waits for, also in several threads: computing, or a publication.

        Compute processes are signalled, and may save first.
        """
        with self._mutex:
            self._working += 1
        try:
            yield
        finally:
            with self._mutex:
                self._working -= 1

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals until the block ends, or `release` is called."""
        if threading.current_thread() is threading.main_thread():
            self._before = process.install_stop_signals(self._handle)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Restore the previous handlers."""
        while self._before:
            signal.signal(*self._before.popitem())

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Convert errors that a signal caused in a library to `Stopped`."""
        try:
            yield
        except (Stopped, UserError):
            raise
        except BaseException as error:
            if self.number:
                raise Stopped(self.number) from error
            raise

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            process.leave_terminal()
        self.number = number  # no logging here: the interrupted code may hold the lock of Prefect's log
        if not self._working:
            raise Stopped(number)


MOST_PAUSE = 60.0
"""Seconds at most before a restart; 2, 4, 8, ... at first."""


class Restarts:
    """Counts the restarts since a new state was last saved."""

    def __init__(self, most: int) -> None:
        """At most `most` restarts without a new checkpoint, from `train.restarts`."""
        self.most, self.number, self._furthest = most, 0, 0

    def pause(self, lost: Lost, saved: int) -> float:
        """Return the seconds to wait before the next restart, after processes were lost when step `saved` was saved.

        Raises:
            Failed: there were too many without a new checkpoint.
        """
        self.number = 1 if saved > self._furthest else self.number + 1
        self._furthest = max(self._furthest, saved)
        if self.number > self.most:
            saw = f"{lost.saw}, {self.number} times without a new checkpoint"
            raise Failed(lost.field, saw, f"train.restarts allows {self.most} restarts", lost.remedy)
        return min(2.0**self.number, MOST_PAUSE)
