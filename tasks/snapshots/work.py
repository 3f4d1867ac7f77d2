"""The work of the stage `snapshot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.artifacts import Outcome, Records
    from tasks.processes.workbench import Workbench
    from tasks.snapshots.config import SnapshotConfig


def build(bench: Workbench, records: Records, config: SnapshotConfig) -> Outcome:
    """Preprocess records by `config.kind`; return counts (rows of each split) and features (layout by name)."""
    return config.build(bench, records)
