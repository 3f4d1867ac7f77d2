"""CPU threads of a compute process, and work that it shares with processes forked from it."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tasks.environment.process import exit_with_parent
from tasks.errors import Lost
from tasks.processes.config import ResourcesConfig

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


def threads_of(resources: ResourcesConfig) -> int:
    """Return the number of threads of a compute process: `resources.threads`, or those available."""
    return resources.threads or available_threads()


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


Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 8
"""Items for each process that have begun, or wait to, at most."""

_work: Callable[[Any], Any] | None = None
"""The function of the forked processes, inherited so that it need not be picklable."""


def in_processes(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    """Yield `work(item)` of each item in their order, computed by up to `processes` forked processes.

    With one process or one item it is computed here. Few results are held until their turn, so that millions of items
    take no more memory than some. An error of an item is raised in its turn; items that have begun are finished before.

    Raises:
        Lost: a process was killed.
    """
    if min(processes, len(items)) <= 1:
        yield from map(work, items)
        return
    global _work
    _work = work
    forking = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(min(processes, len(items)), forking, _begin, (os.getpid(),))
    try:
        ahead: deque[Future[Result]] = deque()
        for item in items:
            ahead.append(pool.submit(_call, item))
            if len(ahead) == AHEAD * processes:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    except BrokenProcessPool:
        rule = "all of them must live until their work is done"
        raise Lost("process", "one of the processes was killed", rule, "see the memory of the machine; rerun") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _work = None


def _begin(parent: int) -> None:
    """End with the parent, which handles signals."""
    exit_with_parent(parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _call(item: Any) -> Any:
    assert _work is not None
    return _work(item)
