"""snapshot: records to examples ready for training."""

from __future__ import annotations

from tasks.artifacts import Records, Snapshot
from tasks.config import SnapshotConfig
from tasks.stage import identities
from tasks.stage.stages import run_stage, verb


@verb
def snapshot(records: Records, config: SnapshotConfig) -> Snapshot:
    """Records to fixed-layout arrays: images uint8 [rows, height, width, channels], labels int64 [rows]; or text as
    tokens uint16 [rows, block + 1] of a vocabulary that is fitted on the train split.

    Each split is a set of `.npy` files that NumPy maps without us, with the way back from each row to its
    records. What turns raw input into an example lies in `transform/` and travels with every export.
    """
    from tasks.data.needs import check_snapshot

    return run_stage(
        "snapshot",
        Snapshot,
        identities.snapshot(records, config),
        work="tasks.data.snapshots:build",
        arguments=(records, config),
        check=lambda: check_snapshot(records.manifest["features"], config.kind),
    )
