"""A person's answer to a run that awaits approval: what `millrace approve` and `millrace reject` do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from flows.reply import Reply
from flows.session import check_server, prepare, registry_of
from tasks.config.secrets import address_in
from tasks.errors import Failed, Refused
from tasks.runs.audit import REASON, Decision
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, resolve_run
from tasks.store.lock import locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.artifacts import Release

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id or an unambiguous part of it.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in the registry and the log.")]


def decide(reply: Reply, reference: str, accepted: bool, reason: str, as_json: bool) -> None:
    """Settle what a run awaits: in the registry and the audit log, in its folder, in MLflow and in Prefect."""
    from tasks.display import terminal
    from tasks.registry import approval

    home = find_home().readable()
    folder = resolve_run(home, reference).folder
    with locked(folder / "lock", terminal.say), registry_of(home) as client:
        run, decision = Run(home, folder), Decision.of_user(accepted, reason, account())
        made = approval.settle(client, run, decision)
        publish(client, run)
    prefect_result = finish_in_prefect(home, run, decision, made)
    reply.add(run_id=run.run_id, model=made.name, version=made.version, alias=made.alias, verdict=made.verdict)
    reply.add(prefect=prefect_result)
    if decision.accepted and made.alias != "champion":  # another champion has come meanwhile, and it is better
        reply.exit_code = 3
    if not as_json:
        typer.echo(made.verdict)
        if prefect_result == "resumed":
            typer.echo("its flow run goes on in Prefect, and ends there as decided here")


def checked(reason: str) -> str:
    """A reason that says something."""
    if not reason.strip():
        raise Refused("--reason", '""', "a decision has a reason", '--reason "what was looked at"')
    if len(reason) > REASON:
        raise Refused("--reason", f"{len(reason):,} characters", f"at most {REASON:,}", "say it in fewer")
    return reason


def account() -> str | None:
    """The account by which the registry is written, where it asks for one."""
    return os.environ.get("MLFLOW_TRACKING_USERNAME")


def publish(client: MlflowClient, run: Run) -> None:
    """The run's page and its MLflow run, as the run has ended; what cannot be written is a warning."""
    from tasks.display import terminal
    from tasks.pages import run_page
    from tasks.tracking import runs

    try:
        pages, description = run_page.publish(run)
        if run.record["mlflow_run_id"]:
            runs.log_result(client, run.record["mlflow_run_id"], run, pages, description)
    except Exception as error:
        terminal.say(f"warning: the run's page was not made anew: {type(error).__name__}: {error}", style="yellow")


def finish_in_prefect(home: Home, run: Run, decision: Decision, made: Release) -> str | None:
    """Have the flow run end in Prefect too, where its server is up; else somebody resumes it there, with any answer."""
    flow_run, server = run.record["attempts"][-1]["prefect_flow_run_id"], address_in("PREFECT_API_URL")
    if not server or not flow_run:
        return None
    from tasks.display import terminal

    prepare(home)
    try:
        check_server(server)
        from flows.asking import finish_flow_run

        return finish_flow_run(flow_run, decision, run, made.verdict)
    except Exception as error:
        saw = error.saw if isinstance(error, Failed) else " ".join(str(error).split())[:160]
        remedy = "if it is suspended, resume it in its pages: it ends as decided here"
        terminal.say(f"warning: Prefect was not told of flow run {flow_run}: {saw}; {remedy}", style="yellow")
        return None
