"""Prefect's server as we serve it: on SQLite one transaction after the other, and for its own pages only.

Prefect begins its transactions deferred, and SQLite fails the one that has read and then wants to write while another
does ("database is locked", answered as 503). The cursor of what failed stays behind in a cycle; where the garbage
collector comes upon it while its connection waits for the lock, it waits, too, in the thread of the event loop, and
with it the transaction that holds the lock: the server stood still for a minute (`docs/decisions.md`, 2026-11-22).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import MODELS_DEPENDENCIES, provide_database_interface
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

from infra.guard import Application, Guard
from tasks.config.templates import copy_template, keep_template

WAIT = 60.0
"""Seconds after which who waits for its turn gives up: as long as Prefect lets SQLite wait for its lock."""

_turn: ContextVar[object | None] = ContextVar("turn", default=None)


class InTurn(AioSqliteConfiguration):
    """SQLite, where who wants to write waits in the event loop, first come first served, and then has the lock."""

    def __init__(self, connection_url: str) -> None:
        super().__init__(connection_url)
        self._writing = asyncio.Lock()
        self._now: object | None = None

    @asynccontextmanager
    async def begin_transaction(
        self, session: AsyncSession, with_for_update: bool = False
    ) -> AsyncIterator[AsyncSessionTransaction]:
        """A transaction that takes the lock as it begins; one within another is left as Prefect has it.

        Raises:
            TimeoutError: the turn did not come.
        """
        if self._now is not None and _turn.get() is self._now:
            async with super().begin_transaction(session, with_for_update) as transaction:
                yield transaction
            return
        async with asyncio.timeout(WAIT):
            await self._writing.acquire()
        self._now = object()
        _turn.set(self._now)
        try:
            async with super().begin_transaction(session, with_for_update=True) as transaction:
                yield transaction
        finally:
            self._now = None
            self._writing.release()


def make_database() -> None:
    """Make Prefect's SQLite file where there is none: a copy of the template, which the first call makes."""
    database = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value())
    path = Path(database.database or "")
    if database.get_backend_name() != "sqlite" or path.exists() or copy_template("prefect", path):
        return
    asyncio.run(provide_database_interface().create_db())
    keep_template("prefect", path)


def application() -> Application:
    """Prefect's application, for whoever can reach it; what the server of a single command serves."""
    address = PREFECT_API_DATABASE_CONNECTION_URL.value()
    if address.startswith("sqlite"):
        copy_template("prefect", Path(make_url(address).database or ""))
        MODELS_DEPENDENCIES["database_config"] = InTurn(address)
    return create_app()


def guarded() -> Application:
    """The same for its own pages and names only; what the stack serves."""
    hosts, login = set(os.environ["MILLRACE_HOSTS"].split(",")), os.environ.get("PREFECT_SERVER_API_AUTH_STRING")
    return Guard(application(), hosts, Path(os.environ["MILLRACE_HOME"]), login)
