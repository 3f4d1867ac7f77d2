"""Garbage collection and backup as flows, which are deployed with nightly schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.states import Completed
from pydantic import Field

from flows.maintenance import back_up, collect_garbage
from infra.services import rotate_logs
from tasks.runs.collection import size
from tasks.runs.home import find_home
from tasks.view import kilobytes

Count = Annotated[int, Field(ge=1)]


@flow(name="gc", flow_run_name="gc")
def gc(keep: Count = 10, days: Count | None = 90) -> Any:
    """Delete artifacts that none of the last `keep` runs, no unfinished run and no release needs, and old history."""
    home = find_home()
    rotate_logs(home.root / "logs")
    dropped = collect_garbage(home, keep, days, dry_run=False)
    return Completed(message=f"{len(dropped)} deleted, {kilobytes(sum(item.bytes for item in dropped))}")


@flow(name="backup", flow_run_name="backup")
def backup(folder: str = ".millrace-backups", keep: Count = 7) -> Any:
    """Back up the home into `folder`, relative to the folder that has the home; keep its newest `keep` backups."""
    home = find_home()
    made = back_up(home, home.root.parent / Path(folder).expanduser(), keep)
    return Completed(message=f"{made}, {kilobytes(size(made))}, verified")
