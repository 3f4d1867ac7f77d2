"""Prefect's server for one origin only: requests that a foreign page or name makes a browser send are refused.

Prefect answers any Host and any Origin; a page from elsewhere could so start flows on a developer's machine
(DNS rebinding). MLflow has such a guard of its own.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI application that lets only requests for, and from pages of, its own `host:port`s through."""

    def __init__(self, inner: Application, hosts: set[str]) -> None:
        self.inner, self.hosts = inner, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""
        if scope["type"] in ("http", "websocket"):
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = headers.get("host", ""), headers.get("origin")
            if host not in self.hosts or (origin is not None and urlsplit(origin).netloc not in self.hosts):
                await _refuse(scope, send)
                return
        await self.inner(scope, receive, send)


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"this Host or Origin is not served here\n"})


def prefect() -> Application:
    """Prefect's application, guarded; what uvicorn is told to serve."""
    server = importlib.import_module("prefect.server.api.server")
    return Guard(server.create_app(), set(os.environ["MILLRACE_HOSTS"].split(",")))
