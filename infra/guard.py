"""Prefect's server for one origin only: requests that a foreign page or name makes a browser send are refused.

Prefect answers any Host and any Origin; a page from elsewhere could so start flows on a developer's machine
(DNS rebinding). MLflow has such a guard of its own.
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
    """An ASGI application that lets only requests for, and from pages of, its own `host:port`s through.

    `/metrics` it answers itself, to whoever knows `login` (`user:password`) where there is one.
    """

    def __init__(self, inner: Application, hosts: set[str], home: Path, login: str | None = None) -> None:
        self.inner, self.hosts, self.home = inner, hosts, home
        self.wanted = None if login is None else "Basic " + base64.b64encode(login.encode()).decode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""
        if scope["type"] in ("http", "websocket"):
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
            host, origin = headers.get("host", ""), headers.get("origin")
            if host not in self.hosts or (origin is not None and urlsplit(origin).netloc not in self.hosts):
                await _refuse(scope, send)
                return
            if scope["type"] == "http" and scope["path"] == "/metrics":
                if self.wanted is not None and not compare_digest(headers.get("authorization", ""), self.wanted):
                    await _answer(send, 401, b"who asks?\n")
                else:
                    await _answer(send, 200, await asyncio.to_thread(metrics.text, self.home))
                return
        await self.inner(scope, receive, send)


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await _answer(send, 403, b"this Host or Origin is not served here\n")


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
