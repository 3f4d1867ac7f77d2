"""The task snapshot: records to a snapshot."""

from __future__ import annotations

from tasks.artifacts import Records, Snapshot
from tasks.processes.workbench import work
from tasks.runner import identities
from tasks.runner.stages import run_stage, verb
from tasks.snapshots import work as snapshots
from tasks.snapshots.config import SnapshotConfig


@verb
def snapshot(records: Records, config: SnapshotConfig) -> Snapshot:
    """Convert records to arrays: images uint8 [rows, height, width, channels] and labels int64 [rows]; or tokens uint16
    [rows, block + 1] of a vocabulary that is fitted on the train split.

    Each split is a set of `.npy` files, with the records of each row. The preprocessing of raw inputs is stored in
    `transform/`, and is part of every export.
    """
    from tasks.feed.needs import check_snapshot

    return run_stage(
        "snapshot",
        Snapshot,
        identities.snapshot(records, config),
        work(snapshots.build, records, config),
        check=lambda: check_snapshot(records.manifest["features"], config),
    )
