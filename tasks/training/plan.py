"""How many steps, where they pause, and how fast they learn: arithmetic that every attempt repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tasks.config.train import Schedule, TrainConfig
from tasks.data.order import steps_of
from tasks.errors import Refused


@dataclass
class Pace:
    """The longest call: about a second of steps, as measured, for a signal waits for the call that is under way.

    The first call of a process compiles and the second is measured: each is of one step.
    """

    target: float = 1.0
    """Seconds that a call may take."""
    most: int = 50
    longest: int = 1
    calls: int = 0

    def took(self, steps: int, seconds: float) -> None:
        """Take in how long a call lasted."""
        self.calls += 1
        if self.calls > 1:
            self.longest = max(1, min(self.most, int(self.target * steps / max(seconds, 1e-9))))


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

    pace: Pace = field(default_factory=Pace)
    """How many steps a call may take, by how long they last."""

    def next_stop(self, step: int) -> int:
        """The step at which the call that begins at `step` returns."""
        due = (step - step % every + every for every in (*self.pauses, self.pace.longest))
        return min(self.steps, *due)

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
