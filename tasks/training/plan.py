"""How many steps, where they pause, and how fast they learn: arithmetic that every attempt repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.config.train import Schedule, TrainConfig
from tasks.data.order import steps_of
from tasks.errors import Refused


@dataclass(frozen=True)
class Plan:
    """The steps of a training."""

    steps: int
    """Global steps from the first weights to the last."""

    batch_size: int
    """Examples of a global step."""

    examples: int
    """Examples of the train split."""

    epochs: int | None
    """Passes after which examples have weight 0; None where steps decide."""

    schedule: Schedule
    """The learning rate."""

    pauses: tuple[int, ...]
    """Intervals at whose multiples the compiled call returns, so that an action can be taken."""

    longest: int = 50
    """Most steps of one compiled call: what a signal has to wait for."""

    def next_stop(self, step: int) -> int:
        """The step at which the call that begins at `step` returns."""
        due = (step - step % every + every for every in (*self.pauses, self.longest))
        return min(self.steps, *due)

    def stops(self, step: int) -> Iterator[tuple[int, int]]:
        """The calls from `step` on, as (from, to)."""
        while step < self.steps:
            until = self.next_stop(step)
            yield step, until
            step = until

    def rates(self, start: int, stop: int) -> NDArray[np.float32]:
        """The learning rates of the steps [start, stop), float32."""
        return np.array([rate(self.schedule, step, self.steps) for step in range(start, stop)], np.float32)


def make_plan(config: TrainConfig, examples: int, pauses: Iterable[int]) -> Plan:
    """The plan of a config over so many examples; `Refused` where the warm-up would outlast it."""
    steps = config.steps
    if steps is None:
        assert config.epochs is not None
        steps = steps_of(config.epochs, examples, config.batch_size)
    if config.schedule.warmup > steps:
        raise Refused(
            "train.schedule.warmup", config.schedule.warmup, f"must not pass the {steps} steps", f"lower it to {steps}"
        )
    return Plan(steps, config.batch_size, examples, config.epochs, config.schedule, tuple(sorted(set(pauses))))


def rate(schedule: Schedule, step: int, steps: int) -> float:
    """The learning rate of one step.

    Linear warm-up to `rate`, then constant, linear, or half a cosine (Loshchilov and Hutter, arXiv 1608.03983,
    without restarts) to `end` times `rate`, reached at the step after the last.
    """
    if step < schedule.warmup:
        return schedule.rate * (step + 1) / schedule.warmup
    if schedule.kind == "constant":
        return schedule.rate
    done = (step - schedule.warmup) / max(1, steps - schedule.warmup)
    left = 1 - done if schedule.kind == "linear" else 0.5 * (1 + math.cos(math.pi * done))
    return schedule.rate * (schedule.end + (1 - schedule.end) * left)
