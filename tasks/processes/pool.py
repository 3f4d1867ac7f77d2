"""Work of a compute process that several processes share: forked from it, they inherit what it has."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from tasks.errors import Lost

Item = TypeVar("Item")
Result = TypeVar("Result")

PR_SET_PDEATHSIG = 1

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
    pool = ProcessPoolExecutor(min(processes, len(items)), multiprocessing.get_context("fork"), _begin)
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


def _begin() -> None:
    """End with the parent, which handles signals."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _call(item: Any) -> Any:
    assert _work is not None
    return _work(item)
