"""The services' logs, kept short: a long one is copied aside and emptied in place, for its writer has it open."""

from __future__ import annotations

import shutil
from pathlib import Path

MOST = 20 << 20
"""Bytes of a log."""
KEPT = 3
"""Older ones that stay."""


def rotate(folder: Path, most: int = MOST) -> list[Path]:
    """Turn over every log longer than `most` bytes: `x.log` to `x.log.1`, that to `x.log.2`, and so on."""
    turned = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size > most]
    for path in turned:
        for number in range(KEPT - 1, 0, -1):
            if (old := path.with_name(f"{path.name}.{number}")).exists():
                old.replace(path.with_name(f"{path.name}.{number + 1}"))
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with open(path, "r+b") as file:  # the services append, so what they write next stands at the new beginning
            file.truncate(0)
    return turned
