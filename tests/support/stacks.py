"""A home with a running stack (real servers, a real worker), and requests to Prefect."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.services import call
from infra.stack import Stack, port_in_use
from tasks.processes.fork_server import SHARED
from tests.support.homes import CommandHome, finished_home, kept_home
from tests.support.shared import shared_fork_servers, warm_millrace

ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


@dataclass(frozen=True)
class Up(CommandHome):
    """A home whose stack is up; its runs use that, and of what test processes share only the fork server."""

    own_processes: bool = True

    @property
    def program(self) -> Path:
        return warm_millrace()

    def up(self) -> dict[str, Any]:
        """`millrace up --json`."""
        answer = self("up", "--json", timeout=400)
        assert answer.code == 0, answer.stderr
        return answer.json

    def ask(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """Prefect's API."""
        layout = Stack(self.root).layout
        assert layout is not None
        known = layout.access.headers("prefect") if layout.access else {}
        return call(
            "GET" if body is None else "POST", f"{layout.prefect_api}/{path}", body, {**known, **(headers or {})}
        )

    def start_deployment(self, name: str, config: dict[str, Any] | None = None) -> str:
        """Begin a run of a deployment, with other values in its config; the flow run's id."""
        flow, _, deployment = name.partition("/")
        deployed = self.ask(f"deployments/name/{flow}/{deployment}")
        body: dict[str, Any] = {"state": {"type": "SCHEDULED"}}
        if config:
            body["parameters"] = {"config": changed(deployed["parameters"]["config"], config)}
        return str(self.ask(f"deployments/{deployed['id']}/create_flow_run", body)["id"])

    def wait_for(self, flow_run: str, *states: str, timeout: float = 300) -> dict[str, Any]:
        """A flow run, as soon as its state's type is one of these, or it has ended."""
        deadline = time.monotonic() + timeout
        while (state := self._state_of(flow_run)) not in (*states, *ENDED):
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
        run: dict[str, Any] = self.ask(f"flow_runs/{flow_run}")
        return run

    def _state_of(self, flow_run: str) -> str:
        """Its state's type, out of the file of Prefect's server where there is one: that costs it no request."""
        history = self.root / "prefect/prefect.db"
        if not history.exists():
            return str(self.ask(f"flow_runs/{flow_run}")["state"]["type"])
        with contextlib.closing(sqlite3.connect(f"file:{history}?mode=ro", uri=True, timeout=30)) as database:
            [(state,)] = database.execute("SELECT state_type FROM flow_run WHERE id = ?", (flow_run,))
        return str(state)


def deployed_home() -> CommandHome:
    """A home in which the stack was up once: the databases of its servers are made, prefect.yaml is deployed."""

    def fill(home: CommandHome) -> None:
        ports = dict(zip(("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"), free_ports(), strict=True))
        answer = CommandHome(home.root, given=ports)("up", "--json", timeout=400)
        assert answer.code == 0, answer.stderr
        assert home("down").code == 0
        (home.root / "stack.json").unlink()

    return kept_home("deployed", fill)


def copied_stack(root: Path) -> Up:
    """A copy of that home on ports of its own, without the runs that were planned and whose time is past.

    It has the artifacts of the finished home, so that a small pipeline computes nothing.
    """
    deployed_home().copied_to(root)
    shutil.copytree(finished_home().root / "store", root / "store", copy_function=os.link, dirs_exist_ok=True)
    shutil.rmtree(root / "logs")
    with contextlib.closing(sqlite3.connect(root / "prefect/prefect.db")) as history, history:
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
        history.execute("DELETE FROM flow_run WHERE state_type = 'SCHEDULED' AND expected_start_time < ?", (now,))
    ports = dict(zip(("PREFECT_SERVER_API_PORT", "MLFLOW_PORT"), free_ports(), strict=True))
    return Up(root, given={**ports, SHARED: shared_fork_servers()})  # the worker passes it on to deployed runs


def wait(due: Callable[[], Any], timeout: float = 180) -> Any:
    """What `due` gives as soon as that is true."""
    deadline = time.monotonic() + timeout
    while not (scheduled := due()):
        assert time.monotonic() < deadline, "never"
        time.sleep(0.05)
    return scheduled


def changed(values: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    """Nested values with others merged in."""
    return {
        **values,
        **{key: changed(values[key], value) if isinstance(value, dict) else value for key, value in by.items()},
    }


def free_ports() -> list[str]:
    """Two ports that nobody listens on, below those that outgoing connections are given by the system."""
    free = (port for port in random.sample(range(20_000, 32_000), 100) if not port_in_use("127.0.0.1", port))
    return [str(next(free)), str(next(free))]
