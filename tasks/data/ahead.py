"""Examples in the order of their items, with their statistics, for which threads decode large images ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

from tasks.data.features import Example
from tasks.data.sources import Item, Skipped, Unreadable
from tasks.data.statistics import ShardStatistics, States
from tasks.errors import UserError

SMALL = 1 << 16
"""Pixels of an image that is decoded sooner than a thread begins."""

Examined = tuple[Example, States]
Result = Callable[[], Examined]
"""Returns an example and the states of its statistics, or raises the reason why there are none."""


def examined(
    items: Iterable[Item], read: Callable[[Item], Example], statistics: ShardStatistics, threads: int, max_pixels: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result.

    Items are read one after the other. Images of at most `max_pixels` together are decoded at the same time, or one.
    """
    pending: deque[tuple[Item, int, Future[Examined]]] = deque()

    def oldest() -> tuple[Item, Result]:
        item, _, future = pending.popleft()
        wait([future])
        return item, future.result

    def examine(example: Example) -> Examined:
        return example, statistics.examine(example)

    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            try:
                example = read(item)
                pixels = statistics.pixels(example)
                result = _returning(examine(example)) if pixels <= SMALL else None
            except (Skipped, Unreadable, UserError) as reason:
                pixels, result = 0, _raising(reason)
            while pending and (
                result is not None or len(pending) >= threads or sum(row[1] for row in pending) + pixels > max_pixels
            ):
                yield oldest()
            if result is not None:
                yield item, result
            else:
                pending.append((item, pixels, pool.submit(examine, example)))
        while pending:
            yield oldest()


def _returning(examined_example: Examined) -> Result:
    return lambda: examined_example


def _raising(reason: Exception) -> Result:
    def raise_it() -> Examined:
        raise reason

    return raise_it
