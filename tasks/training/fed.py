"""The examples of a step by name, for the message of an error."""

from __future__ import annotations

from collections.abc import Callable

from tasks.artifacts import Snapshot
from tasks.feed.snapshot_reader import SnapshotReader
from tasks.training.plan import Plan

MOST = 4
"""Examples that are named."""


def names_of(examples: Snapshot, snapshot: SnapshotReader, plan: Plan, seed: int) -> Callable[[int], str]:
    """Return a function that names the examples of a step: by key, or by row where the records are not in the store."""

    def names(step: int) -> str:
        reader = snapshot.reader("train", plan.batch_size, seed=seed, epochs=plan.epochs, order=plan.order)
        fed, weights = reader.rows(step, step + 1)
        rows = fed[weights > 0].tolist()
        records = examples.path.parents[1] / "records" / dict(examples.manifest["parents"]).get("records", "")
        if (records / "manifest.json").exists():
            named = snapshot.keys("train", rows[:MOST], records)
        else:
            named = [f"row {row}" for row in rows[:MOST]]
        rest = len(rows) - len(named)
        return ", ".join(named) + (f" and {rest} more" if rest else "")

    return names
