"""Decisions on versions: millrace approve, reject and rollback."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from flows.references import registry_of
from flows.reply import AsJson, Reply, replying
from flows.session import check_server, prepare
from tasks.environment.secrets import address_in
from tasks.errors import Failed, Refused
from tasks.runs.audit import REASON, Decision
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, resolve_run
from tasks.store.lock import locked

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

    from tasks.artifacts import Release


RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id or an unambiguous part of it.")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="The reason, stored in the registry and the audit log.")
]


def decide(reply: Reply, reference: str, accepted: bool, reason: str) -> None:
    """Apply a decision: in the registry, the audit log, the folder of the run, MLflow and Prefect."""
    from tasks.registry import approval
    from tasks.view import terminal

    home = find_home().readable()
    folder = resolve_run(home, reference).folder
    with locked(folder / "lock", terminal.say), registry_of(home) as client:
        run, decision = Run(home, folder), Decision.of_user(accepted, reason, account())
        made = approval.settle(client, run, decision)
        publish(client, run)
    prefect_result = finish_in_prefect(home, run, decision, made)
    reply.add(run_id=run.run_id, model=made.name, version=made.version, alias=made.alias, verdict=made.verdict)
    reply.add(prefect=prefect_result)
    if decision.accepted and made.alias != "champion":  # there is a better champion by now
        reply.exit_code = 3
    reply.say(made.verdict)
    if prefect_result == "resumed":
        reply.say("its flow run in Prefect is resumed, and ends with this decision")


def checked(reason: str) -> str:
    """Return the reason if it is neither empty nor too long."""
    if not reason.strip():
        raise Refused("--reason", '""', "a decision needs a reason", 'add --reason "TEXT"')
    if len(reason) > REASON:
        raise Refused("--reason", f"{len(reason):,} characters", f"a reason has at most {REASON:,}", "shorten it")
    return reason


def account() -> str | None:
    """Return the account of the registry; None without a login."""
    return os.environ.get("MLFLOW_TRACKING_USERNAME")


def publish(client: MlflowClient, run: Run) -> None:
    """Update the page of a run and its MLflow run; an error is a warning."""
    from tasks.tracking import runs
    from tasks.view import run_page, terminal

    try:
        pages, description = run_page.publish(run)
        if run.record["mlflow_run_id"]:
            runs.log_result(client, run.record["mlflow_run_id"], run, pages, description)
    except Exception as error:
        terminal.say(f"warning: the page of the run was not updated: {type(error).__name__}: {error}", style="yellow")


def finish_in_prefect(home: Home, run: Run, decision: Decision, made: Release) -> str | None:
    """Apply the decision to the flow run, if Prefect's server runs; otherwise resume it there with any answer."""
    flow_run, server = run.record["attempts"][-1]["prefect_flow_run_id"], address_in("PREFECT_API_URL")
    if not server or not flow_run:
        return None
    from tasks.view import terminal

    prepare(home)
    try:
        check_server(server)
        from flows.asking import finish_flow_run

        return finish_flow_run(flow_run, decision, run, made.verdict)
    except Exception as error:
        saw = error.saw if isinstance(error, Failed) else " ".join(str(error).split())[:160]
        remedy = "if it is suspended, resume it in Prefect's pages: it ends with this decision"
        terminal.say(f"warning: flow run {flow_run} was not updated in Prefect: {saw}; {remedy}", style="yellow")
        return None


def approve(run: RunId, reason: Reason, as_json: AsJson = False) -> None:
    """Make the version of a run that awaits approval the champion.

    If the champion has changed since the gate compared the scores, they are compared again. Exit code 3 if the gate
    fails.
    """
    with replying("approve", as_json) as reply:
        decide(reply, run, True, checked(reason))


def reject(run: RunId, reason: Reason, as_json: AsJson = False) -> None:
    """Keep the champion, and end a run that awaits approval as rejected."""
    with replying("reject", as_json) as reply:
        decide(reply, run, False, checked(reason))


def rollback(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The registered model.")],
    reason: Reason,
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="An earlier champion; default: the previous one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Move the alias champion to the version that had it before; a second call goes back one version further.

    The gate does not promote the version that loses the alias again; `--to` restores it.
    """
    with replying("rollback", as_json) as reply:
        reason = checked(reason)
        home = find_home().readable()
        from tasks.registry.rollback import roll_back

        with registry_of(home) as client:
            moved = roll_back(client, home, name, to, Decision.of_user(True, reason, account()))
        reply.add(model=name, before=moved.before, after=moved.after, scores=moved.scores)
        reply.say(f"{name}@champion: version {moved.before} → version {moved.after} ({moved.scores})")
