"""`python -m infra.prefect_service HOST PORT`: Prefect's server in the stack, behind a Host and Origin check.

Prefect answers requests with any Host and Origin, so that a foreign page could start flows on a developer's machine
(DNS rebinding); MLflow's server has such a check. In front of it, `/metrics` has Prometheus metrics of the stack and of
running trainings, all read from the home at each request.

Uvicorn's own command would put the working directory on the import path.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from infra.stack import Stack
from tasks.store.journal import FILE as JOURNAL
from tasks.store.journal import last_of_training

FRESH = 600.0
"""Seconds after its last point for which a running training is shown."""


class Figures:
    """Collector of a home's metrics."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def collect(self) -> Iterator[Metric]:
        """Yield services, disk, runs by status, and the last point of each running training."""
        yield from self._services()
        free = shutil.disk_usage(self.home).free
        yield GaugeMetricFamily("millrace_disk_free_bytes", "Free space on the disk of the home.", free)
        records = [record for path in sorted(self.home.glob("runs/*/run.json")) if (record := _record(path))]
        ended = GaugeMetricFamily("millrace_runs", "Runs in the home.", labels=("flow", "preset", "status"))
        for labels, count in Counter((row["flow"], row["name"], row["status"]) for row in records).items():
            ended.add_metric(labels, count)
        yield ended
        yield from self._trainings([record for record in records if record["status"] == "running"])

    def _services(self) -> Iterator[Metric]:
        stack = Stack(self.home)
        living = stack.living()
        up = GaugeMetricFamily("millrace_service_up", "1 if the process of a service runs.", labels=("service",))
        memory = GaugeMetricFamily("millrace_service_memory_bytes", "Memory of a service.", labels=("service",))
        for name in stack.started:
            up.add_metric((name,), name in living)
            memory.add_metric((name,), stack.started[name].memory)
        yield from (up, memory)

    def _trainings(self, records: list[dict[str, Any]]) -> Iterator[Metric]:
        step = GaugeMetricFamily("millrace_training_step", "Last logged step.", labels=("run", "preset"))
        by = ("run", "preset", "curve")
        value = GaugeMetricFamily("millrace_training_value", "Last value of a curve.", labels=by)
        for record in records:
            last = last_of_training(self.home / "runs" / record["run_id"] / JOURNAL)
            if last is None or time.time() - last.time > FRESH:
                continue
            step.add_metric((record["run_id"], record["name"]), last.step)
            for name, number in last.metrics.items():
                value.add_metric((record["run_id"], record["name"], name), number)
        yield from (step, value)


def metrics_text(home: Path) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(home))
    return generate_latest(registry)


def _record(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return content
    except (OSError, ValueError):
        return None


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
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close", "code": 1008})
                else:
                    await _answer(send, 403, b"this Host or Origin is not allowed\n")
                return
            if scope["type"] == "http" and scope["path"] == "/metrics":
                if self.wanted is not None and not compare_digest(headers.get("authorization", ""), self.wanted):
                    await _answer(send, 401, b"login required\n")
                else:
                    await _answer(send, 200, await asyncio.to_thread(metrics_text, self.home))
                return
        await self.inner(scope, receive, send)


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def guarded() -> Guard:
    """Return Prefect's application behind the Host and Origin check."""
    from infra.prefect_server import application

    hosts, login = set(os.environ["MILLRACE_HOSTS"].split(",")), os.environ.get("PREFECT_SERVER_API_AUTH_STRING")
    return Guard(application(), hosts, Path(os.environ["MILLRACE_HOME"]), login)


if __name__ == "__main__":
    import uvicorn

    host, port = sys.argv[1:]
    uvicorn.run(guarded, factory=True, host=host, port=int(port), log_level="warning", access_log=False)
