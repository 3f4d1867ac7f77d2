"""What is looked for among all runs, remembered by the stat of each record: only records that have changed are read."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.store.files import ABSENT, canonical, stat_of, write

FILE = ".index.json"
"""In the folder of the runs; without it, or where it is damaged, all records are read."""


@dataclass(frozen=True)
class Row:
    """What is remembered of a run."""

    run_id: str
    identity: str
    """Digest of flow and config."""
    exit_code: int | None
    prefect_id: str | None
    """The flow run of the last attempt."""


def rows(home: Home) -> list[Row]:
    """Return all runs, newest first.

    Raises:
        Failed: the record of a run is damaged.
    """
    known, found = _load(home), dict[str, dict[str, Any]]()
    for name in sorted((path.name for path in home.runs.glob("*")), reverse=True):
        path = home.runs / name / "run.json"
        try:
            key = stat_of(path)
        except ABSENT:
            continue
        row = known.get(name)
        found[name] = (
            row if row is not None and row["key"] == key else {"key": key, "row": asdict(_row(name, read(path)))}
        )
    if found != known:
        with suppress(OSError):  # they are read again then
            write(home.runs / FILE, canonical(found))
    return [Row(**each["row"]) for each in found.values()]


def read(path: Path) -> dict[str, Any]:
    """Return the record of a run; raises `Failed` where it is damaged."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record
    except ValueError:
        raise Failed(str(path), "not JSON", "the record of a run is JSON", f"remove {path.parent}") from None


def _row(name: str, record: dict[str, Any]) -> Row:
    attempts = record["attempts"]
    flow_run = attempts[-1]["prefect_flow_run_id"] if attempts else None
    return Row(name, record["identity"], record["exit_code"], flow_run)


def _load(home: Home) -> dict[str, dict[str, Any]]:
    try:
        known: dict[str, dict[str, Any]] = json.loads((home.runs / FILE).read_bytes())
        return {name: {"key": each["key"], "row": {**each["row"]}} for name, each in known.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
