"""Two or more ways of doing the same, timed in turns: the ratio of each round, the median of them, and the A/A."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Way = Callable[[], None]


def compare(
    title: str, ways: dict[str, Way], *, rounds: int = 7, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Print how many times faster each way is than the first; the first runs twice, and its ratio is the noise."""
    names = list(ways)
    base = names[0]
    order = [*names, f"{base} again"]
    taken: dict[str, list[float]] = {name: [] for name in order}
    for way in ways.values():
        way()  # warm-up
    for number in range(rounds):
        for name in order if number % 2 == 0 else reversed(order):
            started = clock()
            ways[name.removesuffix(" again")]()
            taken[name].append(clock() - started)
    print(f"\n{title}: times as fast as {base}, median of {rounds} interleaved rounds [lowest, highest]")
    for name in order[1:]:
        ratios = [one / other for one, other in zip(taken[base], taken[name], strict=True)]
        label = "A/A" if name.endswith(" again") else name
        print(f"  {label:<44}{statistics.median(ratios):>7.2f}x  [{min(ratios):.2f}, {max(ratios):.2f}]")
