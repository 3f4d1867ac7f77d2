"""The three programs of the local stack: how each is started, and how one sees that it works."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
"""Seconds for which a server may say 503: Prefect does, while another request writes to SQLite."""

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")
"""All that a server needs of the environment of who starts it: no secret of a shell reaches it by accident."""


@dataclass(frozen=True)
class Layout:
    """Where the stack lives and how it is reached."""

    home: Path
    project: Path
    host: str = "127.0.0.1"
    prefect_port: int = 4200
    mlflow_port: int = 5000

    @property
    def prefect_url(self) -> str:
        """Prefect's pages; the API is below `/api`."""
        return f"http://{self.host}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """What `PREFECT_API_URL` must be to use this stack."""
        return f"{self.prefect_url}/api"

    @property
    def mlflow_url(self) -> str:
        """MLflow's pages and API: what `MLFLOW_TRACKING_URI` must be."""
        return f"http://{self.host}:{self.mlflow_port}"


@dataclass(frozen=True)
class Service:
    """A program of the stack."""

    name: str
    command: list[str]
    environment: dict[str, str]
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
    """Prefect's API, its pages and its scheduler, in one process, over the database in the home."""
    command = ["uvicorn", "--factory", "infra.guard:prefect", "--host", layout.host, "--port", str(layout.prefect_port)]
    environment = {
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PREFECT_SERVER_API_HOST": layout.host,
        "PREFECT_SERVER_API_PORT": str(layout.prefect_port),  # by the flag alone the pages would ask port 4200
        "PREFECT_UI_API_URL": layout.prefect_api,
        "MILLRACE_ORIGIN": layout.prefect_url,
    }
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
        "--backend-store-uri": f"sqlite:///{layout.home / 'mlflow.db'}",
        "--artifacts-destination": (layout.home / "mlartifacts").as_uri(),
        "--workers": "1",
        "--uvicorn-opts": "--log-level warning",
    }
    return Service(
        name="mlflow",
        command=[sys.executable, "-m", "mlflow", "server", *words(options)],
        environment={"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
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
        environment=client_environment(layout),
        before=("prefect",),
    )


def client_environment(layout: Layout) -> dict[str, str]:
    """What a program that uses the stack must know."""
    return {
        "MILLRACE_HOME": str(layout.home),
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PREFECT_API_URL": layout.prefect_api,
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
    }


def surroundings(own: dict[str, str]) -> dict[str, str]:
    """The environment of a process of the stack."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, **QUIET, "PYTHONUNBUFFERED": "1", **own}


def answers(url: str, timeout: float = 5.0) -> bool:
    """Whether an address answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def call(method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30.0) -> Any:
    """A JSON request, asked again while the server is busy with its database.

    `OSError` where nobody answers, `urllib.error.HTTPError` with the server's words where it refuses.
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
                reason = f"{error.reason}: {said}"
                raise urllib.error.HTTPError(url, error.code, reason, error.headers, None) from None
            time.sleep(0.5)
    return json.loads(content) if content else None


def words(options: dict[str, str]) -> list[str]:
    """Options as a command line has them."""
    return [word for pair in options.items() for word in pair]
