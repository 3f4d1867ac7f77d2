"""Sources, records, snapshots, the order of examples, and batches. Importing this package imports no TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.data.pipeline import SnapshotReader

RECORDS_VERSION = 6
"""Incremented when the same source would give other records."""

RECORDS_LIBRARIES = ("numpy", "pillow", "pyarrow", "polars")
"""Packages whose versions decide the bytes of records."""


def open_snapshot(path: str | Path) -> SnapshotReader:
    """Open a published snapshot folder for reading (see `tasks.data.pipeline`); raises `Refused` if it is not one."""
    from tasks.data.pipeline import SnapshotReader

    return SnapshotReader(Path(path))


__all__ = ["RECORDS_LIBRARIES", "RECORDS_VERSION", "open_snapshot"]
