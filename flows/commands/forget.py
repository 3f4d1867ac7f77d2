"""millrace forget: a failed experiment leaves the runs, the store, MLflow and Prefect; never a champion."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from flows.references import connected, resolved
from flows.reply import AsJson, Reply, replying
from flows.session import use_stack
from infra import orchestration
from infra.stack import Stack
from tasks.errors import Refused
from tasks.runs.audit import Audit
from tasks.runs.collection import Dropped, collect_of, size, try_lock
from tasks.runs.home import Home, find_home
from tasks.runs.runs import Run, find_runs, resolve_run
from tasks.store.lock import locked
from tasks.store.store import Store
from tasks.view import kilobytes, terminal

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

Version = tuple[str, str]
"""Name and number of a registered version."""


def forget(
    what: Annotated[
        str,
        typer.Argument(metavar="RUN|MODEL", help="A run's id, a model's digest or NAME@VERSION; or a part of an id."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a run: its record, MLflow run, registered versions, and the artifacts that no other run uses.

    For a model, the runs that trained it are deleted. A run whose version has an alias, or was champion, is refused.
    """
    with replying("forget", as_json) as reply, ExitStack() as held:
        home = find_home().readable()
        use_stack(home)
        runs = runs_of(home, what)
        for run in runs:
            if not held.enter_context(try_lock(run.folder / "lock")):
                rule = "a run that a process works on cannot be deleted"
                raise Refused(run.run_id, "it is running", rule, "stop it first, by Ctrl-C or in Prefect")
        dropped: list[Dropped] = []
        if home.has_registry():
            lock = locked(home.root / ".registry.lock", terminal.say)
            client = held.enter_context(connected(home, lock))
            dropped += leave_registry(client, home, runs, dry_run)
        if not dry_run:
            leave_prefect(home, runs)
        dropped += collect_of(home, runs, dry_run)
        for run in runs:
            dropped.append(Dropped(f"run {run.run_id}", run.folder, size(run.folder)))
            if not dry_run:  # last: where this is killed, the next call finds the run and goes on
                shutil.rmtree(run.folder)
        _report(reply, home, runs, dropped, dry_run)


def runs_of(home: Home, what: str) -> list[Run]:
    """Return the run of an id, or those that trained a model; raises `Refused` where there is none."""
    runs = find_runs(home)
    if any(what in run.run_id for run in runs):
        return [resolve_run(home, what)]
    if "@" in what:
        with resolved(home, what) as version:
            made = version.registered.tags.get("millrace.run")
        found = [run for run in runs if run.run_id == made]
    else:
        model = Store(home.store).resolve(what, "model").digest
        found = [run for run in runs if any(row["digest"] == model for row in run.record["stages"].get("train", []))]
    if not found:
        rule = "it was trained by a run of this home"
        raise Refused(what, "no run of this home trained it", rule, "see millrace list runs and list model")
    return found


def leave_registry(client: MlflowClient, home: Home, runs: list[Run], dry_run: bool) -> list[Dropped]:
    """Delete the registered versions and the MLflow runs of runs; raises `Refused`, before, for a champion's."""
    from tasks.registry import registry
    from tasks.tracking.runs import delete

    names = {run.run_id for run in runs}
    theirs: list[Version] = []
    for model in registry.models(client):
        aliases, champions = registry.aliases(client, model), Audit(home).ever_champion(model)
        for version in registry.versions(client, model):
            if version.tags.get("millrace.run") not in names:
                continue
            theirs.append((model, version.version))
            name = f"{model}@{version.version}"
            if having := aliases.get(version.version):
                remedy = f"forget another run, or first release a better model (millrace rollback {model} goes back)"
                raise Refused(name, f"is {' and '.join(having)}", "a version with an alias is kept", remedy)
            if version.version in champions:
                rule = "a version that was champion is kept: rollback may need it"
                raise Refused(name, "was champion", rule, "delete it in MLflow if nobody can need it")
    dropped = [Dropped(f"version {model}@{version}", home.mlartifacts, 0) for model, version in theirs]
    for model, number in [] if dry_run else theirs:
        client.delete_model_version(model, number)
        if not registry.versions(client, model):
            client.delete_registered_model(model)
    for run in runs:
        dropped += [Dropped(f"MLflow run of {run.run_id}", home.mlartifacts, 0)]
        if not dry_run:
            delete(home.mlflow_uri, run.run_id)
    return dropped


def leave_prefect(home: Home, runs: list[Run]) -> None:
    """Delete the flow runs of runs from the history of Prefect, where its server runs."""
    stack = Stack(home.root)
    attempts = [attempt["prefect_flow_run_id"] for run in runs for attempt in run.record["attempts"]]
    flow_runs = dict.fromkeys(filter(None, attempts))
    if stack.layout is not None and "prefect" in stack.living():
        for flow_run in flow_runs:
            orchestration.delete_run(stack.layout, flow_run)
    elif flow_runs:
        terminal.say("Prefect's history keeps its flow runs: its server is down (run millrace up first)")


def _report(reply: Reply, home: Home, runs: list[Run], dropped: list[Dropped], dry_run: bool) -> None:
    """Say what was deleted, and what of the runs' artifacts stays, as others use it."""
    total = sum(item.bytes for item in dropped)
    reply.add(runs=[run.run_id for run in runs], dry_run=dry_run, bytes=total)
    reply.add(dropped=[{"what": item.what, "bytes": item.bytes} for item in dropped])
    for item in dropped:
        reply.say(f"{kilobytes(item.bytes) if item.bytes else '':>10}  {item.what}")
    names = {item.what for item in dropped}
    rows = [row for run in runs for each in run.record["stages"].values() for row in each]
    made = [f"{row['kind']}/{row['digest']}" for row in rows if row["kind"] != "release"]
    if stay := [name for name in dict.fromkeys(made) if name not in names and (home.store / name).exists()]:
        reply.say(f"{'':>10}  stays, as other runs use it: {', '.join(name[:24] for name in stay)}")
        reply.add(kept=stay)
    reply.say(f"{len(dropped)} {'would be deleted' if dry_run else 'deleted'}, {kilobytes(total)}")
