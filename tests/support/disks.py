"""Small disks, to be filled."""

from __future__ import annotations

import contextlib
from pathlib import Path


def fill(path: Path) -> None:
    """Write until nothing more goes in, beside others who write."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
