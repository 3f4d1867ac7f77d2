"""What makes a flow a run: its folder, its attempt, its end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from prefect import runtime

from tasks.attempt import Ticket as Ticket
from tasks.attempt import attempt_run
from tasks.config import Config
from tasks.stage import show_run

P = ParamSpec("P")
Made = TypeVar("Made")

ticket: ContextVar[Ticket] = ContextVar("ticket")


def as_run(body: Callable[P, Made]) -> Callable[P, Made]:
    """Run the body as an attempt of the run that its flow and config mean."""

    @functools.wraps(body)
    def attempt(*args: P.args, **kwargs: P.kwargs) -> Made:
        config = kwargs.get("config", args[0] if args else None)
        assert isinstance(config, Config)
        mine = ticket.get(Ticket())
        try:
            return attempt_run(body.__name__, config, lambda: body(*args, **kwargs), mine, runtime.flow_run.id)
        finally:
            if mine.run is not None:
                show_run(mine.run)

    return attempt


def run_name() -> str:
    """A flow run's name in Prefect: the preset and the flow."""
    config = runtime.flow_run.parameters["config"]
    return f"{config.name if isinstance(config, Config) else config['name']}-{runtime.flow_run.flow_name}"
