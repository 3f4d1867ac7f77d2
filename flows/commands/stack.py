"""The stack of a home: millrace up, status and down."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated

import typer

from flows.reply import AsJson, Reply, replying
from infra import automations, databases, orchestration
from infra.access import USER, loopback
from infra.services import Layout, rotate_logs, services
from infra.stack import Stack, check_host, exclusive
from tasks.environment.process import STOP_SIGNALS
from tasks.errors import Refused, Stopped
from tasks.runs.home import Home, find_home, find_project
from tasks.runs.provenance import git_commit
from tasks.store.lock import locked
from tasks.view import terminal, when

PrefectPort = Annotated[
    int | None, typer.Option(help="Port of Prefect's server; default: PREFECT_SERVER_API_PORT, or 4200.")
]
MlflowPort = Annotated[int | None, typer.Option(help="Port of MLflow's server; default: MLFLOW_PORT, or 5000.")]
Host = Annotated[
    str | None, typer.Option(help="Address that the servers bind to; a non-loopback address requires --auth.")
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="PostgreSQL of both servers: env:NAME or file:PATH of its address, or an address without password.",
    ),
]
Auth = Annotated[bool | None, typer.Option("--auth/--no-auth", help="Require logins; passwords are generated.")]
Alert = Annotated[
    str | None,
    typer.Option(help="Webhook for messages about dead and late runs: env:NAME or file:PATH of its address; or off."),
]
Foreground = Annotated[
    bool, typer.Option("--foreground", help="Keep running, restart failed services, stop all on SIGTERM.")
]

WATCH = 5.0
"""Seconds between two checks of the services in the foreground."""


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
    """Start Prefect's server, MLflow's server and a worker in the background, and deploy prefect.yaml."""
    with replying("up", as_json) as reply:
        home = find_home().readable()
        stack = Stack(home.root)
        layout = wanted(stack, home.root, prefect_port, mlflow_port, host, database_url, auth, alert)
        home.make()
        if layout.access is not None:
            layout.access.make()
        with stopped(home.root) if foreground else nullcontext(), exclusive(home.root):
            make_database(home, layout)
            stack = Stack(home.root)  # read again under the lock
            rotate_logs(home.root / "logs")
            fresh = stack.up(layout, terminal.say)
            orchestration.install(layout, git_commit(), terminal.say)
            deployments = orchestration.verify(layout)
        reply.add(**stack.facts(), deployments=orchestration.planned(deployments))
        reply.say(f"Prefect  {layout.prefect_url}")
        reply.say(f"MLflow   {layout.mlflow_pages}")
        if layout.access is not None:
            reply.say(f"login    {USER}, passwords in {layout.access.folder}/prefect and /mlflow")
        for row in deployments:
            if row["next"]:
                reply.say(f"next     {row['name']} at {when(row['next'], row['timezone'])} ({row['schedule']})")
        if off := ", ".join(row["name"] for row in deployments if row["off"]):
            reply.say(f"off      schedules of {off}")
            page = f"{layout.prefect_url}/deployments"
            turned_on = "set active: true in prefect.yaml and run millrace up, or use its switch"
            reply.say(f"         to turn one on, {turned_on} on {page}")
        reply.say("started  " + ", ".join(fresh) if fresh else "all services were running")
        if foreground:
            stay(home.root)


def make_database(home: Home, layout: Layout) -> None:
    """Create MLflow's database in one step; a server that is killed during migrations would leave an unusable file."""
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
    """Return the layout: from flags, else the environment, else the last `up`, else defaults."""
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
    """Check a layout before anything is written."""
    if layout.prefect_port == layout.mlflow_port:
        raise Refused("--mlflow-port", layout.mlflow_port, "each server needs a port of its own", "choose another port")
    check_host(layout.host)
    if not loopback(layout.host) and not layout.auth:
        rule = "a non-loopback --host requires --auth"
        raise Refused("--host", layout.host, rule, "add --auth, or remove --host")
    if layout.database is not None:
        databases.address_of(layout.database)
    if alert is not None and layout.alert is not None:
        automations.address_of(layout.alert)


def port_of(option: str, flag: int | None, variable: str) -> int | None:
    """Return the port of a flag, else of the environment, else None."""
    name, value = (variable, os.environ.get(variable)) if flag is None else (option, str(flag))
    if not value:
        return None
    if not value.isdecimal() or not 0 < int(value) < 65536:
        raise Refused(name, value, "a port is an integer from 1 to 65535", "correct it, or leave it out")
    return int(value)


def stay(home: Path) -> None:
    """Restart failed services until a signal or `millrace down`, for containers and systemd."""
    with suppress(Stopped, KeyboardInterrupt), stopped(home):
        while True:
            time.sleep(WATCH)
            with exclusive(home):
                stack = Stack(home)  # another process may have changed it
                if stack.layout is None or not stack.started:
                    return
                rotate_logs(home / "logs")
                for name in stack.up(stack.layout, terminal.say):
                    terminal.say(f"{name} had ended and was restarted", style="yellow")


@contextmanager
def stopped(home: Path) -> Iterator[None]:
    """Stop the stack after a signal."""
    try:
        yield
    except (Stopped, KeyboardInterrupt):
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        with exclusive(home):
            Stack(home).down()
        raise


def down(as_json: AsJson = False) -> None:
    """Stop the processes that [bold]millrace up[/] started, and their children."""
    with replying("down", as_json) as reply:
        home = find_home()
        with exclusive(home.make().root), terminal.waiting("stopping the services; a training saves its state"):
            stopped = Stack(home.root).down(terminal.say)
        reply.add(stopped=stopped)
        reply.say("stopped  " + ", ".join(stopped) if stopped else "no service was running")


def status(as_json: AsJson = False) -> None:
    """Show services with start time and memory, the next scheduled runs, and the last results.

    Exit code 1 if a service has ended or does not answer, or a run is late.
    """
    with replying("status", as_json) as reply:
        stack = Stack(find_home().root)
        report(reply, stack)


def report(reply: Reply, stack: Stack) -> None:
    """Fill the reply, and print it."""
    rows, deployments, late = [], [], []
    with terminal.waiting("asking the services"):
        for service in services(stack.layout) if stack.layout and stack.started else []:
            started = stack.started.get(service.name)
            state = "down"
            if started is not None and started.process is not None:
                state = "up" if service.works() else "does not answer"
            rows.append((service.name, state, started))
        if any(name == "prefect" and state == "up" for name, state, _ in rows):
            assert stack.layout is not None
            deployments, late = orchestration.deployments(stack.layout), orchestration.late(stack.layout)
    memory = {name: started.memory for name, _, started in rows if started is not None}
    since = {name: started.since for name, state, started in rows if started is not None and state != "down"}
    reply.add(**stack.facts(), services={name: state for name, state, _ in rows}, since=since, memory=memory)
    last = {row["name"]: row["last"] for row in deployments}
    reply.add(deployments=orchestration.planned(deployments), last=last, late=late)
    reply.exit_code = 1 if late or any(state != "up" for _, state, _ in rows) else 0
    if reply.as_json:
        return
    if not rows:
        reply.say("no service is running; start them with `millrace up`")
    for name, state, _ in rows:
        detail = f"since {when(since[name])}, {memory[name] / 2**20:,.0f} MB" if name in since else ""
        log = f"; see {stack.log(name)}" if state != "up" else ""
        reply.say(f"{name:<8} {state:<4} {detail}{log}")
    if stack.layout and rows:
        reply.say(f"Prefect  {stack.layout.prefect_url}\nMLflow   {stack.layout.mlflow_pages}")
    for row in deployments:
        plan = f"schedule off ({row['off']})" if row["off"] else "no schedule"
        if row["next"]:
            plan = f"next {when(row['next'], row['timezone'])} ({row['schedule']})"
        reply.say(f"{row['name']:<22} {plan}; last {row['last'] or 'never'}")
    for row in late:
        reply.say(f"late     {row['run']} of {row['deployment']}, planned for {when(row['planned'])}")
