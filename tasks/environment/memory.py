"""Memory that a process has freed, and whether the system gets it back.

The allocators of glibc and of Arrow keep what is freed for later, the more, the longer a process runs, so that a large
source would need more memory than a small one (docs/decisions.md, 2026-11-25).
"""

from __future__ import annotations

import ctypes

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
