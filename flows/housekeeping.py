"""What keeps a home in order, as flows: deployed, they run at night."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.states import Completed
from pydantic import Field

from flows.maintenance import back_up, make_room
from infra import logs
from tasks.display.words import kilobytes
from tasks.runs.collection import size
from tasks.runs.home import find_home

Count = Annotated[int, Field(ge=1)]


@flow(name="gc", flow_run_name="gc")
def gc(keep: Count = 10, days: Count | None = 90) -> Any:
    """Drop what no run of the last `keep`, no unfinished run and no release needs, and history older than `days`."""
    home = find_home()
    logs.rotate(home.root / "logs")
    dropped = make_room(home, keep, days, dry_run=False)
    return Completed(message=f"{len(dropped)} dropped, {kilobytes(sum(item.bytes for item in dropped))}")


@flow(name="backup", flow_run_name="backup")
def backup(folder: str = "backups", keep: Count = 7) -> Any:
    """Copy what cannot be made again into `folder` (relative to the home), and let the newest `keep` backups stay."""
    home = find_home()
    made = back_up(home, home.root / Path(folder).expanduser(), keep)
    return Completed(message=f"{made}, {kilobytes(size(made))}, verified")
