"""The three programs of the local stack: how each is started, and how one sees that it works."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from infra import databases
from infra.access import Access, loopback, names_of
from tasks.errors import Failed

POOL = "millrace"
"""The work pool that the deployments of prefect.yaml name."""

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_CLIENT_MAX_RETRIES": "6",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "tasks",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}
"""Nothing leaves the machine; a flow shows that it lives twice a minute, asks a server that is gone for two minutes
(2, 4, ... 64 s), and keeps in its log what the stages say."""

BUSY = 30.0
"""Seconds for which a server may say 503: Prefect does, where its SQLite is locked."""

LATE = 60
"""Seconds after its time at which a run counts as late: a worker may be busy."""

LOOK = "2"
"""Seconds between two looks of the worker for runs that are due: who submits a form waits for it."""

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
"""What a service gets of the environment of who starts it: no secret of a shell reaches it by accident."""

OURS = "MILLRACE_"
"""The worker also gets variables that begin so: references of deployed configs (`env:MILLRACE_WEBHOOK`) need them."""


@dataclass(frozen=True)
class Layout:
    """Where the stack lives and how it is reached."""

    home: Path
    project: Path
    host: str = "127.0.0.1"
    prefect_port: int = 4200
    mlflow_port: int = 5000
    database: str | None = None
    """PostgreSQL for both servers, by reference or by an address without a password; else files in the home."""
    auth: bool = False
    """Whether who comes must say who he is."""
    alert: str | None = None
    """Reference to the address of a webhook that is told of dead and of late runs."""

    @property
    def access(self) -> Access | None:
        """The secrets of the stack, where it has any."""
        return Access.of(self.home) if self.auth else None

    @property
    def near(self) -> str:
        """The address by which this machine reaches the servers."""
        return "127.0.0.1" if self.host == "0.0.0.0" else self.host

    @property
    def prefect_url(self) -> str:
        """Prefect's pages; the API is below `/api`."""
        return f"http://{self.near}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """What `PREFECT_API_URL` must be to use this stack."""
        return f"{self.prefect_url}/api"

    @property
    def pages_api(self) -> str:
        """Where Prefect's pages ask: for people elsewhere below the name, whichever it is, by which they came."""
        return self.prefect_api if loopback(self.host) else "/api"

    @property
    def mlflow_url(self) -> str:
        """MLflow's API: what `MLFLOW_TRACKING_URI` must be."""
        return f"http://{self.near}:{self.mlflow_port}"

    @property
    def mlflow_pages(self) -> str:
        """MLflow's pages, in the mode for models; at the bare address it is the one for prompts and agents."""
        return f"{self.mlflow_url}/#/experiments?workflowType=machine_learning"

    @property
    def named(self) -> list[str]:
        """Every `host:port` by which Prefect may be asked for."""
        return [f"{name}:{self.prefect_port}" for name in {*names_of(self.host), "127.0.0.1", "localhost"}]


@dataclass(frozen=True)
class Service:
    """A program of the stack."""

    name: str
    command: list[str]
    environment: Callable[[], dict[str, str]]
    """Resolved at the start: it may hold secrets."""
    port: int | None = None
    health: str | None = None
    """An address that answers 200 when the service works; without one it works while it lives."""
    before: tuple[str, ...] = field(default=())
    """Services that must work before this one is started."""

    def works(self) -> bool:
        """Whether it answers."""
        return self.health is None or answers(self.health)


def services(layout: Layout) -> list[Service]:
    """In the order in which they are started; they are stopped the other way round."""
    return [prefect_server(layout), mlflow_server(layout), worker(layout)]


def prefect_server(layout: Layout) -> Service:
    """Prefect's API, its pages and its scheduler, in one process, over the database in the home or the one given."""

    def environment() -> dict[str, str]:
        found = {
            "PREFECT_HOME": str(layout.home / "prefect"),
            "PREFECT_SERVER_API_HOST": layout.host,
            "PREFECT_SERVER_API_PORT": str(layout.prefect_port),  # by the flag alone the pages would ask port 4200
            "PREFECT_UI_API_URL": layout.pages_api,
            # kept in memory, the leases of running deployments were gone after a restart, and Prefect ended the runs
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
            "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": str(LATE),
            "MILLRACE_HOSTS": ",".join(sorted(layout.named)),
            "MILLRACE_HOME": str(layout.home),
        }
        if layout.database is not None:
            address = databases.address_of(layout.database)
            found["PREFECT_API_DATABASE_CONNECTION_URL"] = databases.for_prefect(address)
        if layout.access is not None:
            found["PREFECT_SERVER_API_AUTH_STRING"] = layout.access.prefect
            found["PREFECT_API_AUTH_STRING"] = layout.access.prefect  # the server's own services ask it, too
        return found

    listening = ["--host", layout.host, "--port", str(layout.prefect_port)]
    command = ["uvicorn", "--factory", "infra.prefect_server:guarded", *listening]
    return Service(
        name="prefect",
        command=[sys.executable, "-m", *command, "--log-level", "warning", "--no-access-log"],
        environment=environment,
        port=layout.prefect_port,
        health=f"{layout.prefect_api}/health",
    )


def mlflow_server(layout: Layout) -> Service:
    """MLflow's tracking, registry and artifact proxy; without the runner of LLM jobs, which takes 670 MB."""
    options = {
        "--host": layout.host,
        "--port": str(layout.mlflow_port),
        "--artifacts-destination": (layout.home / "mlartifacts").as_uri(),
        "--workers": "1",
        "--uvicorn-opts": "--log-level warning",
    }
    if not loopback(layout.host):
        names = names_of(layout.host)
        served = [f"{name}:{layout.mlflow_port}" for name in names]
        options["--allowed-hosts"] = ",".join([*names, *served])
        options["--cors-allowed-origins"] = ",".join(f"http://{name}" for name in served)
    if layout.access is not None:
        options["--app-name"] = "basic-auth"

    def environment() -> dict[str, str]:
        store = f"sqlite:///{layout.home / 'mlflow.db'}"
        if layout.database is not None:
            store = databases.for_mlflow(databases.address_of(layout.database))
        found = {
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_BACKEND_STORE_URI": store,  # not an option: a command line is everybody's to read
        }
        if layout.access is not None:
            found["MLFLOW_AUTH_CONFIG_PATH"] = str(layout.access.mlflow_config(layout.home))
            found["MLFLOW_FLASK_SERVER_SECRET_KEY"] = layout.access.session
        return found

    return Service(
        name="mlflow",
        command=[sys.executable, "-m", "mlflow", "server", *words(options)],
        environment=environment,
        port=layout.mlflow_port,
        health=f"{layout.mlflow_url}/health",
    )


def worker(layout: Layout) -> Service:
    """Starts the flow runs that are due, each in a process of its own."""
    options = {"--pool": POOL, "--type": "process", "--name": f"millrace-{socket.gethostname()}"}
    return Service(
        name="worker",
        command=[
            sys.executable,
            "-m",
            "prefect",
            "worker",
            "start",
            *(word for pair in options.items() for word in pair),
        ],
        environment=lambda: {**ours(), **client_environment(layout), "PREFECT_WORKER_QUERY_SECONDS": LOOK},
        before=("prefect",),
    )


def client_environment(layout: Layout) -> dict[str, str]:
    """What a program that uses the stack must know."""
    environment = {
        "MILLRACE_HOME": str(layout.home),
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PREFECT_API_URL": layout.prefect_api,
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
    }
    if layout.access is not None:
        environment |= {"PREFECT_API_AUTH_STRING": layout.access.prefect, **layout.access.mlflow_environment}
    return environment


def ours() -> dict[str, str]:
    """What of our environment is meant for deployed runs."""
    return {name: value for name, value in os.environ.items() if name.startswith(OURS)}


def surroundings(own: dict[str, str]) -> dict[str, str]:
    """The environment of a process of the stack."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, **QUIET, "PYTHONUNBUFFERED": "1", **own}


class Answered(Failed):
    """A server of the stack answered with an error: an HTTP status `code`, and its words in `saw`."""

    code: int


def _answered(url: str, code: int, reason: str) -> Answered:
    saw, rule = f"it answered {code} {reason}", "a server of the stack must be able to do it"
    error = Answered(url, saw, rule, "see its log in the home's logs")
    error.code = code
    return error


def answers(url: str, timeout: float = 5.0) -> bool:
    """Whether an address answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


def call(method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30.0) -> Any:
    """A JSON request, asked again while the server is busy with its database.

    Raises:
        Failed: nobody answers.
        Answered: it refuses, with its words.
    """
    data = None if body is None else json.dumps(body).encode()
    spoken = {"Content-Type": "application/json", **(headers or {})}
    deadline = time.monotonic() + BUSY
    while True:
        request = urllib.request.Request(url, data, spoken, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                content = answer.read()
                break
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")[:300]
            if error.code != 503 or time.monotonic() > deadline:
                raise _answered(url, error.code, f"{error.reason}: {said}") from None
            time.sleep(0.5)
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            saw = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            raise Failed(url, saw, "a server of the stack must answer", "millrace up; see its log") from None
    return json.loads(content) if content else None


def ask(layout: Layout, method: str, path: str, body: Any = None) -> Any:
    """Prefect's API, as `call` does it, with the stack's secret where it has one."""
    headers = layout.access.headers("prefect") if layout.access else None
    return call(method, f"{layout.prefect_api}{path}", body, headers)


def words(options: dict[str, str]) -> list[str]:
    """Options as a command line has them."""
    return [word for pair in options.items() for word in pair]
