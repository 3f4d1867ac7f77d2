"""The accelerators and the memory that a process finds on its machine.

A GPU's threads add up in the order in which they come to it; TensorFlow has other operations, which give the same bits
each time and are slower (`tf.config.experimental.enable_op_determinism`). TensorFloat-32 rounds the factors of float32
products to 10 bits of mantissa; TensorFlow has it on, and so is it here. TensorFlow is imported on use.

The allocators of glibc and of Arrow keep what is freed for later, the more, the longer a process runs, so that a large
source would need more memory than a small one (docs/decisions.md, 2026-11-25).
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import psutil

TF32 = True


def prepare() -> None:
    """Let the GPUs of this process give the same bits each time; without one nothing needs to be set."""
    import tensorflow as tf

    if tf.config.get_visible_devices("GPU"):
        tf.config.experimental.enable_op_determinism()
        tf.config.experimental.enable_tensor_float_32_execution(TF32)


def layout() -> dict[str, Any]:
    """Return what a layout records of the GPUs of this process, by their types; nothing without one."""
    import tensorflow as tf

    details = (tf.config.experimental.get_device_details(gpu) for gpu in tf.config.get_visible_devices("GPU"))
    names = sorted({str(each.get("device_name", "GPU")) for each in details})
    return {"accelerators": ", ".join(names), "tf32": TF32} if names else {}


def leave() -> None:
    """Compute on the host alone, in a process that has not computed: its results are compared with another host's."""
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")


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
