"""What `up` puts into Prefect: the work pool, the deployments of prefect.yaml, the automations."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from infra import automations
from infra.services import POOL, Answered, Layout, ask, call, client_environment, surroundings
from tasks.errors import Failed

OVER = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
"""State types after which nothing more happens."""

PATIENCE = 60.0
"""Seconds for the worker to show itself, and for the scheduler to plan."""


def install(layout: Layout, say: Callable[[str], None]) -> None:
    """The pool, the deployments and the automations; what is there already is brought up to date."""
    ensure_pool(layout)
    say("deploying prefect.yaml")
    deploy(layout)
    automations.install(layout)


def ensure_pool(layout: Layout) -> None:
    """A pool of processes that work in the project's folder, where a preset's relative paths begin."""
    kinds = ask(layout, "GET", "/collections/views/aggregate-worker-metadata")
    template = kinds["prefect"]["process"]["default_base_job_configuration"]
    template["variables"]["properties"]["working_dir"]["default"] = str(layout.project)
    wanted = {"base_job_template": template}
    try:
        ask(layout, "POST", "/work_pools/", {"name": POOL, "type": "process", **wanted})
    except Answered as error:
        if error.code != 409:
            raise
        ask(layout, "PATCH", f"/work_pools/{POOL}", wanted)  # ours of before, or made by the worker just now


def deploy(layout: Layout) -> None:
    """As a person would: `prefect deploy --all`."""
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
        cwd=layout.project,
        env=surroundings(client_environment(layout)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = [line.strip(" │") for line in (done.stderr + done.stdout).splitlines() if line.strip(" │╭╮╰╯─")]
        rule, remedy = "every deployment must be accepted", "prefect deploy --all tells more"
        raise Failed("prefect.yaml", said[-1] if said else "prefect deploy failed", rule, remedy)


def deployments(layout: Layout) -> list[dict[str, Any]]:
    """Each deployment: `name` (flow/deployment), `schedule` in words, `next` (ISO 8601) and the `last` run's state."""
    found = []
    for name, deployment in _named(layout):
        active = [schedule["schedule"] for schedule in deployment["schedules"] if schedule["active"]]
        row = {"name": name, "schedule": ", ".join(map(_spell, active)) or None, "next": None, "last": None}
        runs = {"deployments": {"id": {"any_": [deployment["id"]]}}}
        if active and not deployment["paused"]:
            planned = {"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}, "sort": "EXPECTED_START_TIME_ASC"}
            row["next"] = _first(layout, {**runs, **planned}, lambda run: run["expected_start_time"])
        ended = {"flow_runs": {"state": {"type": {"not_any_": ["SCHEDULED"]}}}, "sort": "START_TIME_DESC"}
        row["last"] = _first(layout, {**runs, **ended}, lambda run: f"{run['state']['name']}: {run['name']}")
        found.append(row)
    return sorted(found, key=lambda row: str(row["name"]))


def late(layout: Layout) -> list[dict[str, Any]]:
    """Runs that should have begun and have not: `run`, the `deployment` it is of, and when it was `planned`."""
    query = {"flow_runs": {"state": {"name": {"any_": ["Late"]}}}, "sort": "EXPECTED_START_TIME_ASC"}
    runs = ask(layout, "POST", "/flow_runs/filter", query)
    names = {row["id"]: name for name, row in _named(layout)} if runs else {}
    return [
        {"run": run["name"], "deployment": names.get(run["deployment_id"]), "planned": run["expected_start_time"]}
        for run in runs
    ]


def _named(layout: Layout) -> list[tuple[str, dict[str, Any]]]:
    """The deployments, each with its name as people say it: `flow/deployment`."""
    flows = {flow["id"]: flow["name"] for flow in ask(layout, "POST", "/flows/filter", {})}
    found = ask(layout, "POST", "/deployments/filter", {"sort": "NAME_ASC"})
    return [(f"{flows[row['flow_id']]}/{row['name']}", row) for row in found]


def planned(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `--json` tells of deployments: name, schedule and next run."""
    return [{key: row[key] for key in ("name", "schedule", "next")} for row in found]


def verify(layout: Layout) -> list[dict[str, Any]]:
    """Assert what breaks silently; the deployments, with the times of their next runs.

    Raises:
        Failed: the pages ask another address, MLflow takes no write, no worker polls, or a schedule has no runs.
    """
    told = call("GET", f"{layout.prefect_url}/ui-settings")["api_url"]
    if told != layout.pages_api:
        rule = f"they must ask {layout.pages_api}"
        raise Failed("Prefect's pages", f"they ask {told}", rule, "unset PREFECT_UI_API_URL and try again")
    _write_to_mlflow(layout)
    deadline = time.monotonic() + PATIENCE
    while not _worker_polls(layout):
        if time.monotonic() > deadline:
            raise Failed("worker", "it does not poll", f"pool {POOL} needs one", "see logs/worker.log")
        time.sleep(0.5)
    while True:
        found = deployments(layout)
        idle = [row["name"] for row in found if row["schedule"] and not row["next"]]
        if not idle:
            return found
        if time.monotonic() > deadline:
            rule = "a schedule must have SCHEDULED runs"
            raise Failed("schedules", f"no run is planned for {', '.join(idle)}", rule, "see logs/prefect.log")
        time.sleep(0.5)


def _worker_polls(layout: Layout) -> bool:
    since = datetime.now(UTC) - timedelta(seconds=60)
    workers = ask(layout, "POST", f"/work_pools/{POOL}/workers/filter", {})
    return any(datetime.fromisoformat(worker["last_heartbeat_time"]) > since for worker in workers)


def _write_to_mlflow(layout: Layout) -> None:
    """A tag on the experiment that is always there."""
    tag = {"experiment_id": "0", "key": "millrace.up", "value": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        headers = layout.access.headers("mlflow") if layout.access else None
        call("POST", f"{layout.mlflow_url}/api/2.0/mlflow/experiments/set-experiment-tag", tag, headers)
    except Answered as error:
        rule = "it must take a write"
        raise Failed("MLflow", error.saw, rule, "see logs/mlflow.log") from None


def _first(layout: Layout, query: dict[str, Any], shown: Callable[[Any], str]) -> str | None:
    runs = ask(layout, "POST", "/flow_runs/filter", {**query, "limit": 1})
    return shown(runs[0]) if runs else None


def _spell(schedule: dict[str, Any]) -> str:
    zone = f" {schedule['timezone']}" if schedule.get("timezone") else ""
    if "cron" in schedule:
        return f"{schedule['cron']}{zone}"
    if "interval" in schedule:
        return f"every {timedelta(seconds=float(schedule['interval']))}{zone}"
    return f"{schedule['rrule']}{zone}"


def prune(layout: Layout, before: datetime, dry_run: bool) -> list[str]:
    """Drop flow runs that ended before a time, with their tables, progress and descriptions; their names."""
    old = {"end_time": {"before_": before.isoformat()}, "state": {"type": {"any_": list(OVER)}}}
    found: list[str] = []
    while True:
        query = {"flow_runs": old, "sort": "END_TIME_DESC", "limit": 200, "offset": len(found) if dry_run else 0}
        page = ask(layout, "POST", "/flow_runs/filter", query)
        for run in page:
            found.append(f"{run['name']} of {run['end_time'][:10]}")
            if not dry_run:
                _forget(layout, run["id"])
        if len(page) < 200:
            return found


def _forget(layout: Layout, flow_run: str) -> None:
    """Drop a flow run; before it its artifacts, which Prefect would keep and which then nobody would find."""
    query = {"artifacts": {"flow_run_id": {"any_": [flow_run]}}}
    while page := ask(layout, "POST", "/artifacts/filter", query):
        for artifact in page:
            _delete(layout, f"/artifacts/{artifact['id']}")
    _delete(layout, f"/flow_runs/{flow_run}")


def _delete(layout: Layout, path: str) -> None:
    """Delete what somebody else may have deleted meanwhile."""
    try:
        ask(layout, "DELETE", path)
    except Answered as error:
        if error.code != 404:
            raise


def deployment(layout: Layout, name: str) -> dict[str, Any] | None:
    """A deployment by its name, `flow/deployment`."""
    try:
        found: dict[str, Any] = ask(layout, "GET", f"/deployments/name/{quote(name)}")
        return found
    except Answered as error:
        if error.code in (404, 422):
            return None
        raise


def queue(layout: Layout, deployment_id: str, name: str, parameters: dict[str, Any], tags: list[str]) -> str:
    """Have a deployment run as soon as there is room, once for these values; the flow run's id."""
    values = hashlib.sha256(json.dumps([name, parameters], sort_keys=True).encode()).hexdigest()
    body = {
        "name": name,
        "parameters": parameters,
        "state": {"type": "SCHEDULED"},
        "tags": tags,
        "idempotency_key": values,
    }
    return str(ask(layout, "POST", f"/deployments/{deployment_id}/create_flow_run", body)["id"])
