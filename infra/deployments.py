"""The deployments of prefect.yaml and of the home's schedules: whether Prefect has them already, and what is on.

`prefect deploy --all` takes 20 seconds. After it, `prefect/installed.json` in the home stores a hash of what the
deployments of each file were made from, and what Prefect's server then had. Both must be the same for it to be left
out.

Nothing of Millrace's turns a schedule on or off. Prefect forgets what was switched on its pages whenever a deployment
is installed again. So what somebody has switched since the last installation is switched again after the next one,
unless prefect.yaml says something else by then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infra.schedules import SCHEDULES, TAG, deployment_files, schedules
from infra.services import Layout, ask, write_json

DEPLOYED = "prefect/installed.json"

READ_PRESET = "flows.deploying.read_preset"
"""The build step whose result is known by its file; another one may give another result at any time."""

CODE = ("flows", "tasks")
"""The packages that decide a deployment's description and the schema of its parameters."""

CHANGING = ("updated", "last_polled", "status", "active_slots", "denied_slots", "active", "paused")
"""What a server changes in a deployment by itself, and what somebody switches on its pages."""


def stale(layout: Layout, commit: str | None) -> list[Path]:
    """Return the files of deployments of which the server has not what `prefect deploy --all` would give it."""
    stored, files = layout.home / DEPLOYED, deployment_files(layout)
    if not stored.exists():
        return files
    deployed, served = json.loads(stored.read_bytes())
    if served != served_sha256(layout):
        return files
    sources = {file: sources_sha256(layout, file, commit) for file in files}
    return [file for file, sha256 in sources.items() if sha256 is None or deployed.get(str(file)) != sha256]


def store(layout: Layout, commit: str | None) -> None:
    """Store what was deployed just now."""
    sources = {str(file): sources_sha256(layout, file, commit) for file in deployment_files(layout)}
    write_json(layout.home / DEPLOYED, [sources, served_sha256(layout)])


def sources_sha256(layout: Layout, file: Path, commit: str | None) -> str | None:
    """Return the hash of a file of deployments, its presets and `CODE`; None if it has a build step of the user's."""
    from importlib.metadata import version

    import yaml

    written = file.read_bytes()
    presets = []
    for step in build_steps(yaml.safe_load(written)):
        if READ_PRESET not in step:
            return None
        presets.append(layout.project / step[READ_PRESET]["path"])
    code = [path for package in CODE for path in folder_of(package).rglob("*.py")]
    content = hashlib.sha256(f"{version('prefect')} {commit} {layout.project}".encode() + written)
    for path in [*presets, *sorted(code)]:
        content.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
    return content.hexdigest()


def folder_of(package: str) -> Path:
    """Return the folder of an installed package."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def build_steps(written: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the build steps of all deployments."""
    for deployment in written.get("deployments") or []:
        yield from deployment.get("build", written.get("build")) or []


def served_sha256(layout: Layout) -> str:
    """Return the hash of the server's deployments."""
    rows = ask(layout, "POST", "/deployments/filter", {"sort": "NAME_ASC"})
    return hashlib.sha256(json.dumps(lasting(rows), sort_keys=True).encode()).hexdigest()


def lasting(value: Any) -> Any:
    """Return a value from the server without what changes without an installation."""
    if isinstance(value, dict):
        return {key: lasting(each) for key, each in value.items() if key not in CHANGING}
    return [lasting(each) for each in value] if isinstance(value, list) else value


SWITCHED = "prefect/switched.json"
"""In the home, by file: what was on when it was installed, as the file says; while it is being installed, also before.
"""


def keeping(layout: Layout, file: Path, install: Callable[[], None]) -> None:
    """Install the deployments of a file; what somebody has switched stays as it is, also where the last call was
    killed."""
    path = layout.home / SWITCHED
    records = json.loads(path.read_bytes()) if path.exists() else {}
    record = records.get(file.name, {"installed": {}})
    before = record.get("before") or {name: is_on for name, is_on, _ in switches(layout, file)}
    write_json(path, {**records, file.name: {**record, "before": before}})
    install()
    written = switches(layout, file)
    for name, is_on, switch in written:
        if before.get(name, is_on) != is_on == record["installed"].get(name, is_on):
            switch(not is_on)
    write_json(path, {**records, file.name: {"installed": {name: is_on for name, is_on, _ in written}}})


def switches(layout: Layout, file: Path) -> list[tuple[str, bool, Callable[[bool], Any]]]:
    """Return each deployment of a file, and each of its schedules, by name: whether it is on, and what turns it on or
    off."""

    def of_deployment(path: str) -> Callable[[bool], Any]:
        return lambda on: ask(layout, "POST", f"{path}/{'resume' if on else 'pause'}_deployment", {})

    def of_schedule(path: str) -> Callable[[bool], Any]:
        return lambda on: ask(layout, "PATCH", path, {"active": on})

    found: list[tuple[str, bool, Callable[[bool], Any]]] = []
    for name, row in named(layout):
        if (TAG in row["tags"]) != (file.name == SCHEDULES):
            continue
        path = f"/deployments/{row['id']}"
        found.append((name, not row["paused"], of_deployment(path)))
        for schedule in row["schedules"]:
            which = text_of(schedule["schedule"]) if len(row["schedules"]) > 1 else "its schedule"  # at whatever time
            switch = of_schedule(f"{path}/schedules/{schedule['id']}")
            found.append((f"{name}: {which}", schedule["active"], switch))
    return found


def named(layout: Layout) -> list[tuple[str, dict[str, Any]]]:
    """Return the deployments with their names, `flow/deployment`."""
    flows = {flow["id"]: flow["name"] for flow in ask(layout, "POST", "/flows/filter", {})}
    rows = ask(layout, "POST", "/deployments/filter", {"sort": "NAME_ASC"})
    return [(f"{flows[row['flow_id']]}/{row['name']}", row) for row in rows]


AT_WORK = ("PENDING", "RUNNING", "CANCELLING")
"""Types of the states of runs that have a place in the limit of their deployment."""


def delete_removed(layout: Layout) -> bool:
    """Delete the deployments of schedules that are no longer in the home, with their planned runs; return whether
    there was one.

    With a deployment Prefect (3.8) deletes its limit of runs at a time, without which one at work cannot end. While
    there is one, only the schedule is deleted; the next call deletes the deployment.
    """
    kept = {each.deployment for each in schedules(layout.home)}
    removed = [row for name, row in named(layout) if TAG in row["tags"] and name not in kept]
    for row in removed:
        at_work = {"deployments": {"id": {"any_": [row["id"]]}}, "flow_runs": {"state": {"type": {"any_": AT_WORK}}}}
        path = f"/deployments/{row['id']}"
        if ask(layout, "POST", "/flow_runs/count", at_work):
            for schedule in row["schedules"]:
                ask(layout, "DELETE", f"{path}/schedules/{schedule['id']}")
        else:
            ask(layout, "DELETE", path)
    return bool(removed)


def text_of(schedule: dict[str, Any]) -> str:
    """Return a schedule in a line: `0 2 * * * Europe/Zurich`."""
    zone = f" {schedule['timezone']}" if schedule.get("timezone") else ""
    if "cron" in schedule:
        return f"{schedule['cron']}{zone}"
    if "interval" in schedule:
        return f"every {timedelta(seconds=float(schedule['interval']))}{zone}"
    return f"{schedule['rrule']}{zone}"
