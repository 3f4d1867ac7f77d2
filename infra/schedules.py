"""Which schedules are on, and deployments not paused: nothing of Millrace's turns one on, or off.

Prefect forgets what was switched on its pages whenever a deployment is installed again. So what somebody has switched
since the last installation is switched again after the next one, unless prefect.yaml says something else by then.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from infra import records
from infra.services import Layout, ask

FILE = "prefect/schedules.json"
"""In the home: what was on when it was installed, as prefect.yaml says; while it is being installed, also before."""


def keeping(layout: Layout, install: Callable[[], None]) -> None:
    """Install deployments; what somebody has switched stays as it is, also where the last call was killed."""
    path = layout.home / FILE
    record = json.loads(path.read_bytes()) if path.exists() else {"installed": {}}
    before = record.get("before") or {name: is_on for name, is_on, _ in switches(layout)}
    records.write(path, {**record, "before": before})
    install()
    written = switches(layout)
    for name, is_on, switch in written:
        if before.get(name, is_on) != is_on == record["installed"].get(name, is_on):
            switch(not is_on)
    records.write(path, {"installed": {name: is_on for name, is_on, _ in written}})


def switches(layout: Layout) -> list[tuple[str, bool, Callable[[bool], Any]]]:
    """Return each deployment, and each of its schedules, by name: whether it is on, and what turns it on or off."""

    def of_deployment(path: str) -> Callable[[bool], Any]:
        return lambda on: ask(layout, "POST", f"{path}/{'resume' if on else 'pause'}_deployment", {})

    def of_schedule(path: str) -> Callable[[bool], Any]:
        return lambda on: ask(layout, "PATCH", path, {"active": on})

    found: list[tuple[str, bool, Callable[[bool], Any]]] = []
    for name, row in named(layout):
        path = f"/deployments/{row['id']}"
        found.append((name, not row["paused"], of_deployment(path)))
        for schedule in row["schedules"]:
            which = text(schedule["schedule"]) if len(row["schedules"]) > 1 else "its schedule"  # at whatever time
            switch = of_schedule(f"{path}/schedules/{schedule['id']}")
            found.append((f"{name}: {which}", schedule["active"], switch))
    return found


def named(layout: Layout) -> list[tuple[str, dict[str, Any]]]:
    """Return the deployments with their names, `flow/deployment`."""
    flows = {flow["id"]: flow["name"] for flow in ask(layout, "POST", "/flows/filter", {})}
    rows = ask(layout, "POST", "/deployments/filter", {"sort": "NAME_ASC"})
    return [(f"{flows[row['flow_id']]}/{row['name']}", row) for row in rows]


def text(schedule: dict[str, Any]) -> str:
    """Return a schedule in a line: `0 2 * * * Europe/Zurich`."""
    zone = f" {schedule['timezone']}" if schedule.get("timezone") else ""
    if "cron" in schedule:
        return f"{schedule['cron']}{zone}"
    if "interval" in schedule:
        return f"every {timedelta(seconds=float(schedule['interval']))}{zone}"
    return f"{schedule['rrule']}{zone}"
