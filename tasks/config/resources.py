"""Resources of the machine; never part of a digest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks.config.base import Section

Seconds = Annotated[int, Field(ge=1)]


class TimeoutsConfig(Section):
    """Seconds after which a stage is ended, by stage; `resources.timeout` where nothing is given."""

    convert: Seconds | None = None
    """Of stage `convert`."""

    snapshot: Seconds | None = None
    """Of stage `snapshot`."""

    train: Seconds | None = None
    """Of stage `train`; it saves first, and the next run resumes from there."""

    evaluate: Seconds | None = None
    """Of stage `evaluate`."""

    compress: Seconds | None = None
    """Of each variant of stage `compress`, and of each training of a method."""

    export: Seconds | None = None
    """Of stage `export`."""

    promote: Seconds | None = None
    """Of each step of stage `promote`: registering, scoring the champion again."""


class ResourcesConfig(Section):
    """Threads and time-outs."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of a compute process; default: the physical cores that affinity and cgroup quota allow. The
    weights' last bits depend on it."""

    timeout: Seconds | None = None
    """Seconds after which a stage's process is asked to save and leave; it has `resources.grace` for that. Default: no
    limit."""

    grace: Seconds = 120
    """Seconds between a signal (SIGTERM, Ctrl-C, a time-out) and the end of a process that has not left by itself:
    a training ends the step that is under way, then saves. While it writes its state it has a second for each 20 MB of
    it besides."""

    timeouts: TimeoutsConfig = TimeoutsConfig()
    """The same by stage."""

    def limit(self, stage: str) -> tuple[str, float]:
        """Return the field that limits a stage, and its seconds; infinity without a limit."""
        own: int | None = getattr(self.timeouts, stage)
        field, seconds = ("resources.timeout", self.timeout) if own is None else (f"resources.timeouts.{stage}", own)
        return field, float("inf") if seconds is None else seconds
