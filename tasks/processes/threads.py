"""The number of CPU threads of a compute process, which decides the last bits of a result."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from tasks.config.compose import Config

CGROUPS = Path("/sys/fs/cgroup")


def pin(threads: int) -> None:
    """Let one operation use `threads` CPU threads and run one at a time; call it before anything computes.

    Calling it again with the same number does nothing; TensorFlow cannot change it once it has computed
    (RuntimeError), which is why every piece of work has a process of its own.
    """
    import tensorflow as tf

    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if tf.config.threading.get_inter_op_parallelism_threads() != 1:
        tf.config.threading.set_inter_op_parallelism_threads(1)


def processor() -> str:
    """Return the CPU's model name: another CPU may compute other last bits."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def available_threads() -> int:
    """Return the number of physical cores that CPU affinity and the control group's CPU quota allow, at least 1."""
    allowed = [len(os.sched_getaffinity(0)), psutil.cpu_count(logical=False), quota()]
    return max(1, min(count for count in allowed if count is not None))


def threads_of(config: Config) -> int:
    """Return the number of threads of a compute process: `resources.threads`, or those available."""
    return config.resources.threads or available_threads()


def quota(cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return the CPUs of the control group's quota, rounded down, at least 1; None without a quota.

    Reads `cpu.max` (version 2) or `cpu.cfs_quota_us` (version 1) of the process's own group and of those above it.
    """
    limits = []
    for line in membership.read_text().splitlines() if membership.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        inner = root / path.lstrip("/")
        for folder in (inner, *inner.parents):
            limits += [cpus for cpus in (_quota_of(folder),) if cpus is not None]
            if folder == cgroups:
                break
    return max(1, int(min(limits))) if limits else None


def _quota_of(folder: Path) -> float | None:
    """Return the CPUs of one control group's quota; None where it has none."""
    try:
        if (second := folder / "cpu.max").exists():
            given, period = second.read_text().split()
            return None if given == "max" else int(given) / int(period)
        given, period = (folder / "cpu.cfs_quota_us").read_text(), (folder / "cpu.cfs_period_us").read_text()
        return int(given) / int(period) if int(given) > 0 else None
    except (OSError, ValueError):
        return None
