"""The three services of the local stack: commands, environments, health checks and logs, and requests to their APIs."""

from __future__ import annotations

import json
import os
import shutil
import socket
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
from tasks.environment.process import PYTHON, SAFE
from tasks.errors import Failed

POOL = "millrace"
"""The work pool that the deployments of prefect.yaml name."""

FLOWS_FIRST = (*PYTHON, "-m", "flows.prefect_process")
"""Begins the command line of a program of Prefect that imports flows."""

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
"""No telemetry; a flow sends a heartbeat every 30 s, repeats requests for two minutes (2, 4, ... 64 s) while the server
does not answer, and stores the log lines of its stages."""

BUSY = 30.0
"""Seconds for which requests are repeated after status 503, with which Prefect answers while SQLite is locked."""

LATE = 60
"""Seconds after its scheduled time at which a run counts as late."""

POLL_SECONDS = "2"
"""Seconds between two queries of the worker for scheduled runs."""

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV")
"""Variables that a service inherits: no other, so that no secret of a shell reaches it."""

PREFIX = "MILLRACE_"
"""Prefix of further variables that the worker inherits, for references in deployed configs (`env:MILLRACE_WEBHOOK`)."""


@dataclass(frozen=True)
class Layout:
    """Folders, addresses and options of the stack."""

    home: Path
    project: Path
    host: str = "127.0.0.1"
    prefect_port: int = 4200
    mlflow_port: int = 5000
    database: str | None = None
    """PostgreSQL database of both servers, a reference or an address without a password; None for files in the home."""
    auth: bool = False
    """Whether servers require a login."""
    alert: str | None = None
    """Reference to the address of a webhook for messages about dead and late runs."""

    @property
    def access(self) -> Access | None:
        """The secrets of the stack; None without `auth`."""
        return Access.of(self.home) if self.auth else None

    @property
    def local_host(self) -> str:
        """The host under which this machine reaches the servers."""
        return "127.0.0.1" if self.host == "0.0.0.0" else self.host

    @property
    def prefect_url(self) -> str:
        """Address of Prefect's pages."""
        return f"http://{self.local_host}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """Address of Prefect's API, for `PREFECT_API_URL`."""
        return f"{self.prefect_url}/api"

    @property
    def pages_api(self) -> str:
        """API address in Prefect's pages: relative if the host is not loopback, as other machines use other names."""
        return self.prefect_api if loopback(self.host) else "/api"

    @property
    def mlflow_url(self) -> str:
        """Address of MLflow's API, for `MLFLOW_TRACKING_URI`."""
        return f"http://{self.local_host}:{self.mlflow_port}"

    @property
    def mlflow_pages(self) -> str:
        """Address of MLflow's pages in machine learning mode; without it they open for prompts and agents."""
        return f"{self.mlflow_url}/#/experiments?workflowType=machine_learning"

    @property
    def served_hosts(self) -> list[str]:
        """Every `host:port` that Prefect serves."""
        return [f"{name}:{self.prefect_port}" for name in {*names_of(self.host), "127.0.0.1", "localhost"}]


@dataclass(frozen=True)
class Service:
    """A service of the stack."""

    name: str
    command: list[str]
    environment: Callable[[], dict[str, str]]
    """Called when the service starts, as the variables may be secrets."""
    port: int | None = None
    health: str | None = None
    """Address that answers 200 while the service works; None if a running process suffices."""
    before: tuple[str, ...] = field(default=())
    """Services that must work before this one starts."""

    def works(self) -> bool:
        """Return whether it answers."""
        return self.health is None or answers(self.health)


def services(layout: Layout) -> list[Service]:
    """Return the services in the order of their start; they stop in reverse order."""
    return [prefect_server(layout), mlflow_server(layout), worker(layout)]


def prefect_server(layout: Layout) -> Service:
    """Return the service of Prefect's API, pages and scheduler."""

    def environment() -> dict[str, str]:
        variables = {
            "PREFECT_HOME": str(layout.home / "prefect"),
            "PREFECT_SERVER_API_HOST": layout.host,
            "PREFECT_SERVER_API_PORT": str(layout.prefect_port),  # the pages ask port 4200 otherwise
            "PREFECT_UI_API_URL": layout.pages_api,
            # leases in memory are lost by a restart, after which Prefect ends the runs
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
            "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": str(LATE),
            "MILLRACE_HOSTS": ",".join(sorted(layout.served_hosts)),
            "MILLRACE_HOME": str(layout.home),
        }
        if layout.database is not None:
            address = databases.address_of(layout.database)
            variables["PREFECT_API_DATABASE_CONNECTION_URL"] = databases.for_prefect(address)
        if layout.access is not None:
            variables["PREFECT_SERVER_API_AUTH_STRING"] = layout.access.prefect
            variables["PREFECT_API_AUTH_STRING"] = layout.access.prefect  # for requests of the server to itself
        return variables

    return Service(
        name="prefect",
        command=[*PYTHON, "-m", "infra.prefect_service", layout.host, str(layout.prefect_port)],
        environment=environment,
        port=layout.prefect_port,
        health=f"{layout.prefect_api}/health",
    )


def mlflow_server(layout: Layout) -> Service:
    """Return the service of MLflow's tracking, registry and artifact proxy, without its job runner of 670 MB."""
    options = {
        "--host": layout.host,
        "--port": str(layout.mlflow_port),
        "--artifacts-destination": (layout.home / "mlartifacts").as_uri(),
        "--workers": "1",
        "--uvicorn-opts": f"--log-level warning --app-dir {os.devnull}",  # otherwise the working directory
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
        variables = {
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_BACKEND_STORE_URI": store,  # not an option: all users can read command lines
        }
        if layout.access is not None:
            variables["MLFLOW_AUTH_CONFIG_PATH"] = str(layout.access.mlflow_config(layout.home))
            variables["MLFLOW_FLASK_SERVER_SECRET_KEY"] = layout.access.session
        return variables

    return Service(
        name="mlflow",
        command=[*PYTHON, "-m", "mlflow", "server", *words(options)],
        environment=environment,
        port=layout.mlflow_port,
        health=f"{layout.mlflow_url}/health",
    )


def worker(layout: Layout) -> Service:
    """Return the service that starts scheduled flow runs, each in a process of its own."""
    options = {"--pool": POOL, "--type": "process", "--name": f"millrace-{socket.gethostname()}"}
    return Service(
        name="worker",
        command=[*FLOWS_FIRST, "-m", "prefect", "worker", "start", *words(options)],
        environment=lambda: {
            **variables_for_runs(),
            **client_environment(layout),
            "PREFECT_WORKER_QUERY_SECONDS": POLL_SECONDS,
        },
        before=("prefect",),
    )


def client_environment(layout: Layout) -> dict[str, str]:
    """Return the variables of a program that uses the stack."""
    environment = {
        "MILLRACE_HOME": str(layout.home),
        "PREFECT_HOME": str(layout.home / "prefect"),
        "PREFECT_API_URL": layout.prefect_api,
        "MLFLOW_TRACKING_URI": layout.mlflow_url,
    }
    if layout.access is not None:
        environment |= {"PREFECT_API_AUTH_STRING": layout.access.prefect, **layout.access.mlflow_environment}
    return environment


def variables_for_runs() -> dict[str, str]:
    """Return the variables that deployed runs inherit."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def surroundings(own: dict[str, str]) -> dict[str, str]:
    """Return the environment of a process of the stack, with its own variables."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, **QUIET, **SAFE, "PYTHONUNBUFFERED": "1", **own}


direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses of this machine, without the proxies of the environment."""


class Answered(Failed):
    """A server of the stack answered with an error: HTTP status `code`, and its message in `saw`."""

    code: int


def _answered(url: str, code: int, reason: str) -> Answered:
    saw, rule = f"it answered {code} {reason}", "a server of the stack must accept the request"
    error = Answered(url, saw, rule, "see the server's log in the home's folder logs")
    error.code = code
    return error


def answers(url: str, timeout: float = 5.0) -> bool:
    """Return whether an address answers 200."""
    try:
        with direct.open(url, timeout=timeout) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


def call(method: str, url: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 30.0) -> Any:
    """Send a JSON request, repeated while the server answers 503, and return the decoded answer.

    Raises:
        Failed: no server answers.
        Answered: the server answers with an error.
    """
    data = None if body is None else json.dumps(body).encode()
    sent_headers = {"Content-Type": "application/json", **(headers or {})}
    deadline = time.monotonic() + BUSY
    while True:
        request = urllib.request.Request(url, data, sent_headers, method=method)
        try:
            with direct.open(request, timeout=timeout) as answer:
                content = answer.read()
                break
        except urllib.error.HTTPError as error:
            with error:
                message = error.read().decode(errors="replace")[:300]
            if error.code != 503 or time.monotonic() > deadline:
                raise _answered(url, error.code, f"{error.reason}: {message}") from None
            time.sleep(0.5)
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            saw = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            raise Failed(
                url, saw, "a server of the stack must answer", "run millrace up, and see the server's log"
            ) from None
    return json.loads(content) if content else None


def ask(layout: Layout, method: str, path: str, body: Any = None) -> Any:
    """Send a request to Prefect's API with the login of the stack."""
    headers = layout.access.headers("prefect") if layout.access else None
    return call(method, f"{layout.prefect_api}{path}", body, headers)


def words(options: dict[str, str]) -> list[str]:
    """Return options as words of a command line."""
    return [word for pair in options.items() for word in pair]


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, in a folder that may be new; whoever reads the file has the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1))
    new.replace(path)


LONGEST_LOG = 20 << 20
"""Bytes from which a log is rotated."""
KEPT_LOGS = 3
"""Rotated logs that are kept."""


def rotate_logs(folder: Path, most: int = LONGEST_LOG) -> list[Path]:
    """Rotate every log longer than `most` bytes, `x.log` to `x.log.1`, that to `x.log.2`, and return their paths.

    A log is copied and truncated, as its service has it open.
    """
    rotated = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size > most]
    for path in rotated:
        for number in range(KEPT_LOGS - 1, 0, -1):
            if (old := path.with_name(f"{path.name}.{number}")).exists():
                old.replace(path.with_name(f"{path.name}.{number + 1}"))
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with open(path, "r+b") as file:  # services append, so that they continue at the new end
            file.truncate(0)
    return rotated
