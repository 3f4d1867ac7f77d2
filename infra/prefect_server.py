"""Prefect's server with serialised transactions on SQLite, and with the Host and Origin check.

Prefect begins its transactions deferred, and SQLite fails a transaction that has read and then writes while another one
writes ("database is locked", answered as 503). The cursor of the failed one remains in a reference cycle; if it is
garbage collected while its connection waits for the lock, the event loop is blocked, and with it the transaction that
has the lock: the server did not answer for a minute (`docs/decisions.md`, 2026-11-22).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from prefect.server.api import server
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import MODELS_DEPENDENCIES, provide_database_interface
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

from tasks.environment.database_templates import copy_template, creating, keep_template

if TYPE_CHECKING:
    from fastapi import FastAPI

WAIT = 60.0
"""Seconds that a transaction waits for its turn, as long as Prefect lets SQLite wait for its lock."""

FIRST = ("/admin", "/events", "/flows", "/artifacts", "/logs", "/flow_runs")
"""Prefixes of the routers that a run uses. The first requests build routers in their order, until one matches."""

_turn: ContextVar[object | None] = ContextVar("turn", default=None)


class InTurn(AioSqliteConfiguration):
    """SQLite configuration whose transactions wait for each other in the event loop, in order of arrival."""

    def __init__(self, connection_url: str) -> None:
        super().__init__(connection_url)
        self._writing = asyncio.Lock()
        self._now: object | None = None

    @asynccontextmanager
    async def begin_transaction(
        self, session: AsyncSession, with_for_update: bool = False
    ) -> AsyncIterator[AsyncSessionTransaction]:
        """Begin a transaction that takes the lock at once; a nested one is left unchanged.

        Raises:
            TimeoutError: the lock was not free within `WAIT` seconds.
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


def make_database(current: Path | None) -> None:
    """Create Prefect's SQLite file, unless it exists, as a copy of the template, which the first call creates.

    A database other than `current`, for which migrations are off, is migrated.
    """
    database = make_url(PREFECT_API_DATABASE_CONNECTION_URL.value())
    path = Path(database.database or "")
    if database.get_backend_name() != "sqlite":
        if current is not None:
            asyncio.run(provide_database_interface().create_db())
        return
    with creating(path):
        if path.exists():
            if path != current:
                asyncio.run(provide_database_interface().create_db())
        elif not copy_template("prefect", path):
            asyncio.run(provide_database_interface().create_db())
            keep_template("prefect", path)


def application() -> FastAPI:
    """Return Prefect's application, without the Host and Origin check, for the server of a single command."""
    address = PREFECT_API_DATABASE_CONNECTION_URL.value()
    if address.startswith("sqlite"):
        path = Path(make_url(address).database or "")
        with creating(path):
            copy_template("prefect", path)
        MODELS_DEPENDENCIES["database_config"] = InTurn(address)
    in_order = sorted(server.API_ROUTERS, key=lambda router: router.prefix not in FIRST)
    server.API_ROUTERS = cast(Any, tuple(in_order))
    return server.create_app()
