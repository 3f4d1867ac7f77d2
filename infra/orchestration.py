"""The objects that `up` creates in Prefect: work pool, deployments of prefect.yaml and automations; and queries."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra import automations
from infra.deployments import delete_removed, keeping, named, stale, store, text_of
from infra.schedules import Schedule, schedules, write_deployments
from infra.services import FLOWS_FIRST, POOL, Answered, Layout, ask, call, client_environment, surroundings
from tasks.errors import Failed

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
"""Terminal state types."""

TEMPLATE = Path(__file__).parent / "work_pools" / "process.json"
"""Template of the work pool; that of a pool made by hand finds Python on the worker's path."""

PATIENCE = 60.0
"""Seconds until the worker must poll; seconds until schedules must have planned runs."""


def install(layout: Layout, commit: str | None, say: Callable[[str], None]) -> None:
    """Create or update the work pool, the deployments, whose version is the commit, and the automations."""
    ensure_pool(layout)
    check_pools(layout, schedules(layout.home))
    write_deployments(layout)
    files = stale(layout, commit)
    deleted = delete_removed(layout)
    for file in files:
        say(f"deploying {file.name}")
        keeping(layout, file, partial(deploy, layout, file))
    if files or deleted:
        store(layout, commit)
    automations.install(layout)


def ensure_pool(layout: Layout) -> None:
    """Create a process work pool whose working directory is the project, and which imports nothing else from there."""
    template = json.loads(TEMPLATE.read_bytes())
    defaults = {"working_dir": str(layout.project), "command": shlex.join([*FLOWS_FIRST, "-m", "prefect.engine"])}
    for name, value in defaults.items():
        template["variables"]["properties"][name]["default"] = value
    wanted = {"base_job_template": template}
    try:
        ask(layout, "POST", "/work_pools/", {"name": POOL, "type": "process", **wanted})
    except Answered as error:
        if error.code != 409:
            raise
        ask(layout, "PATCH", f"/work_pools/{POOL}", wanted)  # it exists: of an earlier `up`, or created by the worker


def check_pools(layout: Layout, wanted: Iterable[Schedule]) -> None:
    """Raise `Failed` where the server has not the work pool of a schedule; Prefect itself would deploy none of them."""
    for schedule in (each for each in wanted if each.pool != POOL):  # which `install` makes
        try:
            ask(layout, "GET", f"/work_pools/{quote(schedule.pool, safe='')}")
        except Answered as error:
            if error.code != 404:
                raise
            saw, rule = f"work pool {schedule.pool}", "Prefect's server has no work pool of that name"
            remedy = f"run prefect work-pool create {schedule.pool} --type process, or choose another pool or none: "
            remedy += f"millrace schedule {schedule.deployment} --remove"
            raise Failed(schedule.deployment, saw, rule, remedy) from None


def deploy(layout: Layout, file: Path) -> None:
    """Run `prefect deploy --all` for a file of deployments."""
    done = subprocess.run(
        [*FLOWS_FIRST, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)],
        cwd=layout.project,
        env=surroundings(client_environment(layout)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line.strip(" │") for line in (done.stderr + done.stdout).splitlines() if line.strip(" │╭╮╰╯─")]
        rule, remedy = "Prefect must accept every deployment", "run prefect deploy --all for details"
        raise Failed(file.name, lines[-1] if lines else "prefect deploy failed", rule, remedy)


def deployments(layout: Layout) -> list[dict[str, Any]]:
    """Return for each deployment `name`, `schedule` (those that are on), `timezone`, `off` (those that are not), `next`
    (ISO 8601; not that of a run that is late), and the state of its `last` run."""
    rows = []
    for name, deployment in named(layout):
        on: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for schedule in deployment["schedules"]:
            on[schedule["active"] and not deployment["paused"]].append(schedule["schedule"])
        texts = {is_on: ", ".join(map(text_of, each)) or None for is_on, each in on.items()}
        row = {"name": name, "schedule": texts[True], "off": texts[False], "next": None, "last": None}
        row["timezone"] = next((schedule.get("timezone") for schedule in on[True]), None)
        runs = {"deployments": {"id": {"any_": [deployment["id"]]}}}
        if on[True]:
            ahead = {"expected_start_time": {"after_": datetime.now(UTC).isoformat()}}
            scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}, **ahead}
            planned = {"flow_runs": scheduled, "sort": "EXPECTED_START_TIME_ASC"}
            row["next"] = _first(layout, {**runs, **planned}, lambda run: run["expected_start_time"])
        ended = {"flow_runs": {"state": {"type": {"not_any_": ["SCHEDULED"]}}}, "sort": "START_TIME_DESC"}
        row["last"] = _first(layout, {**runs, **ended}, lambda run: f"{run['state']['name']}: {run['name']}")
        rows.append(row)
    return sorted(rows, key=lambda row: str(row["name"]))


def late(layout: Layout) -> list[dict[str, Any]]:
    """Return the late runs: `run`, `deployment` and the `planned` start time."""
    query = {"flow_runs": {"state": {"name": {"any_": ["Late"]}}}, "sort": "EXPECTED_START_TIME_ASC"}
    runs = ask(layout, "POST", "/flow_runs/filter", query)
    names = {row["id"]: name for name, row in named(layout)} if runs else {}
    return [
        {"run": run["name"], "deployment": names.get(run["deployment_id"]), "planned": run["expected_start_time"]}
        for run in runs
    ]


def planned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return name, schedules and next run of deployments, for `--json`."""
    return [{key: row[key] for key in ("name", "schedule", "off", "next")} for row in rows]


def verify(layout: Layout) -> list[dict[str, Any]]:
    """Check what would fail without a message, and return the deployments with the times of their next runs.

    Raises:
        Failed: Prefect's pages use another API address, MLflow accepts no write, no worker polls, or a schedule has
            no planned run.
    """
    address = call("GET", f"{layout.prefect_url}/ui-settings")["api_url"]
    if address != layout.pages_api:
        rule = f"the API address must be {layout.pages_api}"
        raise Failed("Prefect's pages", f"API address {address}", rule, "unset PREFECT_UI_API_URL and try again")
    _write_to_mlflow(layout)
    deadline = time.monotonic() + PATIENCE
    while not _worker_polls(layout):
        if time.monotonic() > deadline:
            raise Failed("worker", "it does not poll", f"the pool {POOL} needs a worker", "see logs/worker.log")
        time.sleep(0.5)
    return with_plans(layout)


def with_plans(layout: Layout, name: str | None = None) -> list[dict[str, Any]]:
    """Return the deployments, or the one of a name, as soon as every schedule of theirs that is on has planned runs.

    Raises:
        Failed: the server, which takes seconds for it, has planned none.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        rows = [row for row in deployments(layout) if name in (None, row["name"])]
        idle = [row["name"] for row in rows if row["schedule"] and not row["next"]]
        if not idle:
            return rows
        if time.monotonic() > deadline:
            rule = "a schedule must have SCHEDULED runs"
            raise Failed("schedules", f"no run is planned for {', '.join(idle)}", rule, "see logs/prefect.log")
        time.sleep(0.5)


def _worker_polls(layout: Layout) -> bool:
    since = datetime.now(UTC) - timedelta(seconds=60)
    workers = ask(layout, "POST", f"/work_pools/{POOL}/workers/filter", {})
    return any(datetime.fromisoformat(worker["last_heartbeat_time"]) > since for worker in workers)


def _write_to_mlflow(layout: Layout) -> None:
    """Set a tag on the default experiment."""
    tag = {"experiment_id": "0", "key": "millrace.up", "value": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        headers = layout.access.headers("mlflow") if layout.access else None
        call("POST", f"{layout.mlflow_url}/api/2.0/mlflow/experiments/set-experiment-tag", tag, headers)
    except Answered as error:
        raise Failed("MLflow", error.saw, "it must accept writes", "see logs/mlflow.log") from None


def _first(layout: Layout, query: dict[str, Any], shown: Callable[[Any], str]) -> str | None:
    runs = ask(layout, "POST", "/flow_runs/filter", {**query, "limit": 1})
    return shown(runs[0]) if runs else None


def prune(layout: Layout, before: datetime, dry_run: bool) -> list[str]:
    """Delete flow runs that ended before a time, with their artifacts, and return their names."""
    old = {"end_time": {"before_": before.isoformat()}, "state": {"type": {"any_": list(ENDED)}}}
    names: list[str] = []
    while True:
        query = {"flow_runs": old, "sort": "END_TIME_DESC", "limit": 200, "offset": len(names) if dry_run else 0}
        page = ask(layout, "POST", "/flow_runs/filter", query)
        for run in page:
            names.append(f"{run['name']} of {run['end_time'][:10]}")
            if not dry_run:
                delete_run(layout, run["id"])
        if len(page) < 200:
            return names


def delete_run(layout: Layout, flow_run: str) -> None:
    """Delete a flow run after its artifacts, which Prefect would keep."""
    query = {"artifacts": {"flow_run_id": {"any_": [flow_run]}}}
    while page := ask(layout, "POST", "/artifacts/filter", query):
        for artifact in page:
            _delete(layout, f"/artifacts/{artifact['id']}")
    _delete(layout, f"/flow_runs/{flow_run}")


def _delete(layout: Layout, path: str) -> None:
    """Delete an object, unless it is deleted already."""
    try:
        ask(layout, "DELETE", path)
    except Answered as error:
        if error.code != 404:
            raise


def deployment(layout: Layout, name: str) -> dict[str, Any] | None:
    """Return a deployment by its name, `flow/deployment`; None if there is none."""
    try:
        row: dict[str, Any] = ask(layout, "GET", f"/deployments/name/{quote(name)}")
        return row
    except Answered as error:
        if error.code in (404, 422):
            return None
        raise


def queue(layout: Layout, deployment_id: str, name: str, parameters: dict[str, Any], tags: list[str]) -> str:
    """Schedule a run of a deployment now, once for these values, and return the id of the flow run."""
    values = hashlib.sha256(json.dumps([name, parameters], sort_keys=True).encode()).hexdigest()
    body = {
        "name": name,
        "parameters": parameters,
        "state": {"type": "SCHEDULED"},
        "tags": tags,
        "idempotency_key": values,
    }
    return str(ask(layout, "POST", f"/deployments/{deployment_id}/create_flow_run", body)["id"])
