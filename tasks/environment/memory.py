"""Memory of a process: how much it may have, and whether the system gets back what it has freed.

The allocators of glibc and of Arrow keep what is freed for later, the more, the longer a process runs, so that a large
source would need more memory than a small one (docs/decisions.md, 2026-11-25).
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")

TRIM, MMAP, ARENAS = -1, -3, -8
"""Numbers of glibc's options M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX (malloc.h)."""
LARGE = 128 << 10
"""Bytes from which on a block is memory of its own, which returns to the system when it is freed. A fixed threshold:
glibc raises its own up to 32 MiB with each such block that is freed."""


def return_freed() -> None:
    """Let this process, and those that it forks, return large freed blocks to the system at once."""
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return
    for option, value in ((MMAP, LARGE), (TRIM, LARGE), (ARENAS, 2)):
        mallopt(option, value)


def available(cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return the bytes that the system, or a cgroup (version 2) of this process, has left; caches of files are free."""
    left = [psutil.virtual_memory().available]
    names = membership.read_text().splitlines() if membership.exists() else []
    own = next((name.removeprefix("0::/") for name in names if name.startswith("0::")), "")
    folder = cgroups / own
    for level in [folder, *folder.parents]:
        if (level / "memory.max").exists() and (limit := (level / "memory.max").read_text().strip()) != "max":
            caches = next(
                int(line.split()[1])
                for line in (level / "memory.stat").read_text().splitlines()
                if line.startswith("inactive_file ")
            )
            left.append(int(limit) - int((level / "memory.current").read_text()) + caches)
        if level == cgroups:
            break
    return max(min(left), 0)
