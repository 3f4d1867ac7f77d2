"""What a training reads: order, batches and augmentation. Importing this package imports no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.feed.snapshot_reader import SnapshotReader


def open_snapshot(path: str | Path) -> SnapshotReader:
    """Open a published snapshot folder for reading; raises `Refused` if it is not one."""
    from tasks.feed.snapshot_reader import SnapshotReader

    return SnapshotReader(Path(path))
