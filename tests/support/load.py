"""Concurrent clients of Prefect's server: flow runs with heartbeats and logs, and workers that poll."""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

POOL = "load"


@dataclass(frozen=True)
class Answer:
    """What came of one request."""

    asked: str
    status: int
    seconds: float


class Client:
    """One client, on a connection of its own."""

    def __init__(self, api: str, answers: list[Answer]) -> None:
        self.api, self.answers = urlsplit(api), answers

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON, `None` where it was refused."""
        started = time.monotonic()
        connection = http.client.HTTPConnection(self.api.netloc, timeout=120)
        try:
            connection.request(
                method, f"{self.api.path}/{path}", json.dumps(body), {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.answers.append(Answer(f"{method} {path}", answer.status, time.monotonic() - started))
        return json.loads(content) if answer.status in (200, 201) else None


def load(api: str, clients: int, seconds: float) -> list[Answer]:
    """Everything that `clients` were answered who asked for so many seconds, each as fast as it could."""
    answers: list[Answer] = []
    first = Client(api, answers)
    first("POST", "work_pools/", {"name": POOL, "type": "process"})
    flow, end = first("POST", "flows/", {"name": "load"})["id"], time.monotonic() + seconds

    def one() -> None:
        ask = Client(api, answers)
        for _ in turns(ask, flow):
            if time.monotonic() > end:
                return

    threads = [threading.Thread(target=one) for _ in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return answers


def turns(ask: Client, flow: str) -> Iterator[None]:
    """What a flow run and its worker ask, again and again."""
    while True:
        yield
        run = ask("POST", "flow_runs/", {"flow_id": flow, "state": {"type": "PENDING"}})
        if run is None:
            continue
        at = f"flow_runs/{run['id']}"
        ask("POST", f"{at}/set_state", {"state": {"type": "RUNNING"}})
        for number in range(5):
            yield
            ask("POST", "events", [beat(run["id"])])
            task = {"flow_run_id": run["id"], "task_key": "task", "dynamic_key": str(number)}
            begun = ask("POST", "task_runs/", {**task, "state": {"type": "RUNNING"}})
            if begun is not None:
                ask("POST", f"task_runs/{begun['id']}/set_state", {"state": {"type": "COMPLETED"}})
            entry = {"name": "load", "level": 20, "message": "said", "timestamp": now(), "flow_run_id": run["id"]}
            ask("POST", "logs/", [entry])
            ask("GET", at)
        ask("POST", f"{at}/set_state", {"state": {"type": "COMPLETED"}})
        ask("POST", f"work_pools/{POOL}/workers/heartbeat", {"name": str(threading.get_ident())})
        ask("POST", f"work_pools/{POOL}/get_scheduled_flow_runs", {})


def beat(run: str) -> dict[str, Any]:
    """A run's sign of life."""
    resource = {"prefect.resource.id": f"prefect.flow-run.{run}", "prefect.resource.name": "load"}
    return {"id": str(uuid.uuid4()), "occurred": now(), "event": "prefect.flow-run.heartbeat", "resource": resource}


def now() -> str:
    """The time, as Prefect reads it."""
    return datetime.now(UTC).isoformat()
