"""Rotation of the services' logs: a long one is copied and truncated, as its service has it open."""

from __future__ import annotations

import shutil
from pathlib import Path

MOST = 20 << 20
"""Bytes from which a log is rotated."""
KEPT = 3
"""Rotated logs that are kept."""


def rotate(folder: Path, most: int = MOST) -> list[Path]:
    """Rotate every log longer than `most` bytes, `x.log` to `x.log.1`, that to `x.log.2`, and return their paths."""
    rotated = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size > most]
    for path in rotated:
        for number in range(KEPT - 1, 0, -1):
            if (old := path.with_name(f"{path.name}.{number}")).exists():
                old.replace(path.with_name(f"{path.name}.{number + 1}"))
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with open(path, "r+b") as file:  # services append, so that they continue at the new end
            file.truncate(0)
    return rotated
