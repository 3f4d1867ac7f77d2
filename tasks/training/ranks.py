"""Times of each process of a training, and which of them the others wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tasks.training.engines import Engine
from tasks.training.group import Seconds
from tasks.training.meter import Meter

log = logging.getLogger(__name__)

SLOWER = 1.5
"""A straggler takes so many times as long as the median of the others to have its gradients, input included,"""
AT_LEAST = 0.005
"""and so many seconds more for each step."""


@dataclass
class Ranks:
    """Adds up the times of each process, names stragglers at intervals, and measures all at the end."""

    log_every: int
    hosts: Sequence[str]
    measure: Callable[[str, Any], None]
    every: int = 1
    steps: int = 0
    total: list[Seconds] = field(default_factory=list)
    """Of the steps so far, without the first call, which compiles."""
    since: list[Seconds] = field(default_factory=list)
    """Of the steps since the last interval."""
    since_steps: int = 0
    named: set[int] = field(default_factory=set)
    started: bool = False

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        """Add the times of the last call."""
        last = meter.last
        if last is None or len(last.ranks) < 2:
            return
        if not self.started:
            self.started = True
            return
        self.total, self.since = added(self.total, last.ranks), added(self.since, last.ranks)
        self.steps += last.steps
        self.since_steps += last.steps
        if engine.group.cluster.rank == 0 and self.since_steps >= self.log_every:
            for rank in set(stragglers(self.since, self.since_steps)) - self.named:
                self.named.add(rank)
                own, others = in_ms(self.since, self.since_steps, rank)
                where = f"rank {rank} on {self.hosts[rank]}"
                log.warning("step %d: %s is slow: %.1f ms a step where the others take %.1f", step, where, own, others)
            self.since, self.since_steps = [], 0

    def end(self) -> None:
        """Measure the milliseconds of a step in each process, and whether it is a straggler."""
        slow = stragglers(self.total, self.steps)
        rows = [
            {
                "rank": rank,
                "host": self.hosts[rank],
                **{f"{name}_ms": 1e3 * value / self.steps for name, value in times._asdict().items()},
                "straggler": rank in slow,
            }
            for rank, times in enumerate(self.total)
        ]
        if rows:
            self.measure("train/ranks", rows)


def added(before: list[Seconds], new: Sequence[Seconds]) -> list[Seconds]:
    """Return the sums by rank."""
    if not before:
        return list(new)
    return [Seconds(*(sum(pair) for pair in zip(*both, strict=True))) for both in zip(before, new, strict=True)]


def stragglers(ranks: Sequence[Seconds], steps: int) -> list[int]:
    """Return the ranks that the others wait for."""
    slow = []
    for rank in range(len(ranks)):
        own, others = in_ms(ranks, steps, rank)
        if own > SLOWER * others and own - others > 1e3 * AT_LEAST:
            slow.append(rank)
    return slow


def in_ms(ranks: Sequence[Seconds], steps: int, rank: int) -> tuple[float, float]:
    """Return the milliseconds of a step until its gradients are there, of a rank and the median of the others."""
    busy = [1e3 * (times.computing + times.waiting) / steps for times in ranks]
    return busy[rank], median(value for other, value in enumerate(busy) if other != rank)
