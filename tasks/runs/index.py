"""What is looked for among all runs, remembered by the stat of each record: only records that have changed are read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import Failed
from tasks.runs.home import Home
from tasks.store.files import ABSENT, StatKey, canonical, stat_of, write

FILE = ".index.json"
"""In the folder of the runs; without it, or where it is damaged, all records are read."""


class Row(NamedTuple):
    """What is remembered of a run."""

    run_id: str
    identity: str
    """Digest of flow and config."""
    exit_code: int | None
    prefect_id: str | None
    """The flow run of the last attempt."""


def rows(home: Home) -> Iterator[Row]:
    """Yield all runs, newest first; they are remembered for the next search when this one comes to the last.

    Raises:
        Failed: the record of a run is damaged.
    """
    known, found = _load(home), dict[str, tuple[StatKey, Row]]()
    folder = str(home.runs)
    names = os.listdir(folder) if home.runs.is_dir() else []  # noqa: PTH208 - names, of which there are thousands
    for name in sorted(names, reverse=True):
        path = f"{folder}/{name}/run.json"
        try:
            key = stat_of(path)
        except ABSENT:
            continue
        row = known.get(name)
        found[name] = row if row is not None and row[0] == key else (key, _row(name, read(Path(path))))
        yield found[name][1]
    if found != known:
        with suppress(OSError):  # they are read again then
            write(home.runs / FILE, canonical(found))


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


def _load(home: Home) -> dict[str, tuple[StatKey, Row]]:
    try:
        known = json.loads((home.runs / FILE).read_bytes())
        return {name: (key, Row(*row)) for name, (key, row) in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
