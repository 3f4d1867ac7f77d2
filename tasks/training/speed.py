"""Where the time of a training goes: steps a second, goodput, and which process the others wait for.

The term is of Google's "ML Productivity Goodput" (2023): the share of the time in which steps of the model are computed
that have not been computed before.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psutil

from tasks.training.engines import Compute, Engine
from tasks.training.group import Seconds
from tasks.training.loop import Action
from tasks.training.meter import Meter

SETTLED = 5.0
"""Seconds of timed steps after which FLOPs are counted and the peak is looked up or measured, which takes a moment."""
BACKWARD = 3
"""A step is three forward passes: one, and a backward pass of two (Chowdhery et al., arXiv 2204.02311, appendix B).
What is computed again (`train.remat`) does not count."""


@dataclass
class Speed:
    """Computes the figures since the last point of the curves."""

    batch_size: int
    tokens: int = 0
    """Positions of an example of a language model; 0 for other models."""
    timed: float = 0.0
    compute: Compute | None = None

    def figures(self, meter: Meter, engine: Engine) -> dict[str, float]:
        """Return the figures by the names of metrics; none where no step was timed, as the first call compiles."""
        figures = {"memory_bytes": float(engine.memory() or psutil.Process().memory_info().rss)}
        if not meter.steps or not meter.seconds:
            return figures
        examples = self.batch_size * meter.steps / meter.seconds
        figures |= {
            "step_ms": 1e3 * meter.seconds / meter.steps,
            "examples_per_second": examples,
            "input_share": meter.waited / meter.seconds,
        }
        if self.tokens:
            figures["tokens_per_second"] = self.tokens * examples
        self.timed += meter.seconds
        if self.compute is None and self.timed >= SETTLED:
            self.compute = engine.compute()
        if self.compute is not None and self.compute.flops:
            figures["model_flops_per_second"] = BACKWARD * self.compute.flops * examples
            if self.compute.peak:
                figures["mfu"] = figures["model_flops_per_second"] / self.compute.peak
        return figures


STEPS, AGAIN, UNDONE = "steps", "steps again", "steps undone"
PARTS = ("setting up", "compiling", "waiting for input", STEPS, AGAIN, UNDONE, "evaluating", "saving", "other")
"""Where time goes; `steps again` are those after the last checkpoint that an earlier attempt had computed already,
`steps undone` those that a rollback gave up."""


@dataclass
class Goodput:
    """Adds up the seconds of a process; the first call of the engine compiles."""

    measure: Callable[[str, Any], None]
    reached: int = 0
    """The last step that an earlier attempt had computed."""
    began: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.time)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    every: int = 1
    compiled: bool = False
    computed: int = 0
    """Steps that `steps` has the seconds of."""
    rollbacks: int = 0
    """Rollbacks whose steps are in `steps undone`."""
    accelerator: int = 0
    """The most bytes that were in use on the first accelerator; 0 where there is none."""

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        """Add a call of the engine; an action of the loop, and the first one."""
        self.accelerator = engine.peak_memory()
        for rollback in meter.spikes.rollbacks[self.rollbacks :]:
            self._undo(rollback["step"] - rollback["to"], meter)
        self.rollbacks = len(meter.spikes.rollbacks)
        last = meter.last
        if last is None:
            return
        if not self.compiled:
            self.compiled = True
            self.seconds["setting up"] = time.monotonic() - self.began - last.seconds
            self.seconds["compiling"] += last.seconds
            return
        again = min(max(self.reached - (step - last.steps), 0), last.steps) / last.steps
        computing = last.seconds - last.waited
        self.seconds["waiting for input"] += last.waited
        self.seconds[AGAIN] += again * computing
        self.seconds[STEPS] += (1 - again) * computing
        self.computed += last.steps

    def _undo(self, steps: int, meter: Meter) -> None:
        """Move the seconds of the last steps to those undone, with those of the call that spiked."""
        share = min(steps / self.computed, 1.0) if self.computed else 0.0
        moved = share * self.seconds[STEPS]
        self.seconds[STEPS] -= moved
        self.seconds[UNDONE] += moved + meter.spikes.seconds
        meter.spikes.seconds = 0.0

    def timed(self, part: str, action: Action) -> Action:
        """Return an action whose seconds are added to a part."""
        return Timed(action.every, self, part, action)

    @property
    def share(self) -> float:
        """The share of the time so far in which steps were computed that had not been computed before."""
        return self.seconds[STEPS] / max(time.monotonic() - self.began, 1e-9)

    def report(self) -> None:
        """Measure the parts so far and the largest memory, under the time at which the process began."""
        parts = {**self.seconds, "other": 0.0}
        parts["other"] = max(time.monotonic() - self.began - sum(parts.values()), 0.0)
        self.measure(f"train/goodput/{self.started:.0f}", {name: round(value, 3) for name, value in parts.items()})
        host = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks = {"host": host} | ({"accelerator": self.accelerator} if self.accelerator else {})
        self.measure(f"train/peak_memory_bytes/{self.started:.0f}", peaks)


@dataclass
class Timed:
    """An action, timed."""

    every: int
    goodput: Goodput
    part: str
    action: Action

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None:
        """Call the action."""
        before = time.monotonic()
        self.action(step, meter, engine)
        self.goodput.seconds[self.part] += time.monotonic() - before
        self.goodput.report()


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
