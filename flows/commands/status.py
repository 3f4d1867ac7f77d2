"""millrace status: the state of the services and deployments."""

from __future__ import annotations

import typer

from flows.reply import AsJson, Reply, replying
from infra import orchestration
from infra.services import services
from infra.stack import Stack
from tasks.runs.home import find_home
from tasks.view import terminal, when


def status(as_json: AsJson = False) -> None:
    """Show services with start time and memory, the next scheduled runs, and the last results.

    Exit code 1 if a service has ended or does not answer, or a run is late.
    """
    with replying("status", as_json) as reply:
        stack = Stack(find_home().root)
        report(reply, stack, as_json)


def report(reply: Reply, stack: Stack, as_json: bool) -> None:
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
    if as_json:
        return
    if not rows:
        typer.echo("no service is running; start them with `millrace up`")
    for name, state, _ in rows:
        detail = f"since {when(since[name])}, {memory[name] / 2**20:,.0f} MB" if name in since else ""
        log = f"; see {stack.log(name)}" if state != "up" else ""
        typer.echo(f"{name:<8} {state:<4} {detail}{log}")
    if stack.layout and rows:
        typer.echo(f"Prefect  {stack.layout.prefect_url}\nMLflow   {stack.layout.mlflow_pages}")
    for row in deployments:
        plan = f"schedule off ({row['off']})" if row["off"] else "no schedule"
        if row["next"]:
            plan = f"next {when(row['next'], row['timezone'])} ({row['schedule']})"
        typer.echo(f"{row['name']:<22} {plan}; last {row['last'] or 'never'}")
    for row in late:
        typer.echo(f"late     {row['run']} of {row['deployment']}, planned for {when(row['planned'])}")
