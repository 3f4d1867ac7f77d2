"""Restarts of lost compute processes: after growing pauses, and not for ever without progress."""

from __future__ import annotations

from tasks.errors import Failed, Lost

MOST_PAUSE = 60.0
"""Seconds at most before a restart; 2, 4, 8, ... at first."""


class Restarts:
    """Counts the restarts since the work has last advanced."""

    def __init__(self, most: int) -> None:
        """At most `most` restarts without progress, from `train.restarts`."""
        self.most, self.number, self._furthest = most, 0, 0

    def pause(self, lost: Lost, done: int) -> float:
        """Return the seconds to wait before the next restart, after processes were lost when `done` steps were taken.

        Raises:
            Failed: there were too many without a new step.
        """
        self.number = 1 if done > self._furthest else self.number + 1
        self._furthest = max(self._furthest, done)
        if self.number > self.most:
            saw = f"{lost.saw}, {self.number} times without a new step"
            raise Failed(lost.field, saw, f"train.restarts allows {self.most} restarts", lost.remedy)
        return min(2.0**self.number, MOST_PAUSE)
