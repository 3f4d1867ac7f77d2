"""Restarts of lost compute processes: after growing pauses, and not for ever without a new checkpoint."""

from __future__ import annotations

from tasks.errors import Failed, Lost

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
