"""Sources, records, snapshots, their order, and the way from them to a batch. Importing it imports no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.data.pipeline import SnapshotReader


def open_snapshot(path: str | Path) -> SnapshotReader:
    """Open a published snapshot folder for reading; `Refused` if it is none. See `tasks.data.pipeline`."""
    from tasks.data.pipeline import SnapshotReader

    return SnapshotReader(Path(path))


__all__ = ["open_snapshot"]
