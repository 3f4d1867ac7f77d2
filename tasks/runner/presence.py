"""When the processes of a training start and are lost, in the run's measurements and as a table in Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tasks.config.roles import Role
from tasks.runs.runs import Run

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
