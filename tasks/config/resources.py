"""What the machine gives; never part of an identity."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks.config.base import Section

Seconds = Annotated[int, Field(ge=1)]


class ResourcesConfig(Section):
    """Threads and time-outs."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """CPU threads of a compute process; default: the cores. The weights' last bits depend on it."""

    timeout: Seconds = 86_400
    """Seconds after which a stage's process is stopped, saved and reported."""
