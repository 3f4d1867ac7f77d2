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

    learning_rate: float
    """The highest."""

    schedule: Schedule
    """By which share of it each step learns."""

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
        shares = np.array([share(self.schedule, step, self.steps) for step in range(start, stop)], np.float64)
        return (self.learning_rate * shares).astype(np.float32)


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
    return Plan(
        steps,
        config.batch_size,
        examples,
        config.epochs,
        config.learning_rate,
        config.schedule,
        tuple(sorted(set(pauses))),
    )


def share(schedule: Schedule, step: int, steps: int) -> float:
    """By which share of the highest learning rate one step learns.

    Linear warm-up to 1, reached at its last step; then constant, linear, or half a cosine (Loshchilov and Hutter,
    arXiv 1608.03983, without restarts) to `end`, reached at the last step of all.
    """
    if step < schedule.warmup:
        return (step + 1) / schedule.warmup
    highest = max(schedule.warmup - 1, 0)  # the step that has all of it
    if schedule.kind == "constant" or steps - 1 == highest:
        return 1.0
    done = (step - highest) / (steps - 1 - highest)
    left = 1 - done if schedule.kind == "linear" else 0.5 * (1 + math.cos(math.pi * done))
    return schedule.end + (1 - schedule.end) * left
