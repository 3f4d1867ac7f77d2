"""Host and Origin check in front of Prefect's server, as MLflow's server has it.

Prefect answers requests with any Host and Origin, so that a foreign page could start flows on a developer's machine
(DNS rebinding).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, MutableMapping
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra import metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI application that passes on only requests whose Host and Origin are among its `host:port`s.

    It answers `/metrics` itself, if `login` (`user:password`) is given only to requests with it.
    """

    def __init__(self, inner: Application, hosts: set[str], home: Path, login: str | None = None) -> None:
        self.inner, self.hosts, self.home = inner, hosts, home
        self.wanted = None if login is None else "Basic " + base64.b64encode(login.encode()).decode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if scope["type"] in ("http", "websocket"):
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = headers.get("host", ""), headers.get("origin")
            if host not in self.hosts or (origin is not None and urlsplit(origin).netloc not in self.hosts):
                await _refuse(scope, send)
                return
            if scope["type"] == "http" and scope["path"] == "/metrics":
                if self.wanted is not None and not compare_digest(headers.get("authorization", ""), self.wanted):
                    await _answer(send, 401, b"login required\n")
                else:
                    await _answer(send, 200, await asyncio.to_thread(metrics.text, self.home))
                return
        await self.inner(scope, receive, send)


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _answer(send, 403, b"this Host or Origin is not allowed\n")


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
