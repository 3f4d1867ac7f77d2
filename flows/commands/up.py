"""millrace up: both servers, a worker and the deployments, in one command."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated

import typer

from flows.reply import AsJson, replying, when
from infra import automations, databases, logs, orchestration
from infra.access import USER, loopback
from infra.services import Layout
from infra.stack import Stack, alone, check_host
from tasks.display import terminal
from tasks.errors import Refused, Stopped
from tasks.runs.home import Home, find_home, find_project
from tasks.store.lock import locked

PrefectPort = Annotated[
    int | None, typer.Option(help="Port of Prefect's server; else PREFECT_SERVER_API_PORT, else 4200.")
]
MlflowPort = Annotated[int | None, typer.Option(help="Port of MLflow's server; else MLFLOW_PORT, else 5000.")]
Host = Annotated[
    str | None, typer.Option(help="Address that the servers bind to; another than this machine's own needs --auth.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="PostgreSQL for both servers: env:NAME or file:PATH of its address, or an address without a password.",
    ),
]
Auth = Annotated[
    bool | None, typer.Option("--auth/--no-auth", help="Ask everybody who they are; makes the secrets it needs.")
]
Alert = Annotated[
    str | None,
    typer.Option(
        help="Webhook that is told of dead and of late runs: env:NAME or file:PATH of its address; off: nobody."
    ),
]
Foreground = Annotated[bool, typer.Option("--foreground", help="Stay, mend what dies, stop all on SIGTERM.")]

WATCH = 5.0
"""Seconds between two looks at the services in the foreground."""


def up(
    prefect_port: PrefectPort = None,
    mlflow_port: MlflowPort = None,
    host: Host = None,
    database_url: Database = None,
    auth: Auth = None,
    alert: Alert = None,
    foreground: Foreground = False,
    as_json: AsJson = False,
) -> None:
    """Prefect server, MLflow server, worker and the deployments of prefect.yaml, in the background."""
    with replying("up", as_json) as reply:
        home = find_home().readable()
        stack = Stack(home.root)
        layout = wanted(stack, home.root, prefect_port, mlflow_port, host, database_url, auth, alert)
        home.make()
        if layout.access is not None:
            layout.access.make()
        with stopped(home.root) if foreground else nullcontext(), alone(home.root):
            make_database(home, layout)
            stack = Stack(home.root)  # as it is, now that nobody else changes it
            logs.rotate(home.root / "logs")
            fresh = stack.up(layout, terminal.say)
            orchestration.install(layout, terminal.say)
            found = orchestration.verify(layout)
        reply.add(**stack.facts(), deployments=orchestration.planned(found))
        if not as_json:
            typer.echo(f"Prefect  {layout.prefect_url}")
            typer.echo(f"MLflow   {layout.mlflow_pages}")
            if layout.access is not None:
                typer.echo(f"login    {USER}, passwords in {layout.access.folder}/prefect and /mlflow")
            for row in found:
                if row["next"]:
                    typer.echo(f"next     {row['name']} at {when(row['next'])} ({row['schedule']})")
            typer.echo("started  " + ", ".join(fresh) if fresh else "all of it was up already")
        if foreground:
            stay(home.root)


def make_database(home: Home, layout: Layout) -> None:
    """MLflow's, whole or not at all: its server, killed amid the migrations, would leave a file of no use."""
    if layout.database is not None:
        databases.prepare(databases.address_of(layout.database))
    elif not home.mlflow_file.exists():
        from tasks.tracking import runs

        with locked(home.root / ".mlflow.lock"):
            runs.connect(f"{runs.SQLITE}{home.mlflow_file}")


def wanted(
    stack: Stack,
    home: Path,
    prefect_port: int | None,
    mlflow_port: int | None,
    host: str | None,
    database: str | None,
    auth: bool | None,
    alert: str | None,
) -> Layout:
    """By flag, else by environment, else as it was asked for before, else the usual."""
    default = stack.layout or Layout(home, find_project())
    layout = Layout(
        home,
        default.project if stack.living() else find_project(),
        host or default.host,
        port_of("--prefect-port", prefect_port, "PREFECT_SERVER_API_PORT") or default.prefect_port,
        port_of("--mlflow-port", mlflow_port, "MLFLOW_PORT") or default.mlflow_port,
        database or default.database,
        default.auth if auth is None else auth,
        None if alert == automations.OFF else alert or default.alert,
    )
    check(layout, alert)
    return layout


def check(layout: Layout, alert: str | None) -> None:
    """Refuse, before anything is written, what could not come up or should not."""
    if layout.prefect_port == layout.mlflow_port:
        raise Refused("--mlflow-port", layout.mlflow_port, "each server has a port of its own", "give another")
    check_host(layout.host)
    if not loopback(layout.host) and not layout.auth:
        rule = "whom others can reach must ask who they are"
        raise Refused("--host", layout.host, rule, "add --auth, or leave out --host")
    if layout.database is not None:
        databases.address_of(layout.database)
    if alert is not None and layout.alert is not None:
        automations.address_of(layout.alert)


def port_of(option: str, flag: int | None, variable: str) -> int | None:
    """A port that the flag gives, else the environment."""
    named, given = (variable, os.environ.get(variable)) if flag is None else (option, str(flag))
    if not given:
        return None
    if not given.isdecimal() or not 0 < int(given) < 65536:
        raise Refused(named, given, "a port is a whole number from 1 to 65535", "correct it or leave it out")
    return int(given)


def stay(home: Path) -> None:
    """Mend what dies until a signal comes, or `millrace down`: for containers and systemd."""
    with suppress(Stopped, KeyboardInterrupt), stopped(home):
        while True:
            time.sleep(WATCH)
            with alone(home):
                stack = Stack(home)  # as others have left it
                if stack.layout is None or not stack.started:
                    return
                logs.rotate(home / "logs")
                for name in stack.up(stack.layout, terminal.say):
                    terminal.say(f"{name} was gone and is started anew", style="yellow")


@contextmanager
def stopped(home: Path) -> Iterator[None]:
    """Stop all of it when a signal comes."""
    try:
        yield
    except (Stopped, KeyboardInterrupt):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with alone(home):
            Stack(home).down()
        raise
