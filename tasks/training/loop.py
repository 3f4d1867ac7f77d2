"""The training loop over global steps, and its plan: where calls end, and the learning rate of each step.

The engine computes the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.config.base import Conflict
from tasks.errors import Refused
from tasks.feed.orders import Order
from tasks.training.config import TrainConfig
from tasks.training.engines import Engine
from tasks.training.meter import Meter
from tasks.training.schedules import ScheduleConfig

if TYPE_CHECKING:
    from tasks.training.checkpoints import StagedCheckpoints


@dataclass
class Pace:
    """The longest allowed call in steps, from the measured step time, as a signal waits for the end of a call.

    The first call of a process compiles and the second is measured; both have one step.
    """

    target: float = 1.0
    """Seconds that a call should take."""
    most: int = 50
    longest: int = 1
    calls: int = 0

    def update(self, steps: int, seconds: float) -> None:
        """Update `longest` from the duration of a call."""
        self.calls += 1
        if self.calls > 1:
            self.longest = max(1, min(self.most, int(self.target * steps / max(seconds, 1e-9))))


@dataclass(frozen=True)
class Plan:
    """The plan of a training."""

    steps: int
    """Number of global steps."""

    batch_size: int
    """Examples of a global step."""

    examples: int
    """Examples of the train split."""

    epochs: int | None
    """Number of epochs, after which examples have weight 0; None where `train.steps` is set."""

    learning_rate: float
    """Peak learning rate."""

    schedule: ScheduleConfig
    """The learning rate schedule."""

    pauses: tuple[int, ...]
    """Intervals of the actions: no call crosses a multiple of one."""

    order: Order = "shuffled"
    """How examples are ordered in each epoch."""

    stops: tuple[int, ...] = ()
    """Further steps at which a call ends."""

    pace: Pace = field(default_factory=Pace)
    """The longest allowed call."""

    def next_stop(self, step: int) -> int:
        """Return the step at which the call that begins at `step` ends."""
        due = (step - step % every + every for every in self.pauses)
        stops = (stop for stop in self.stops if stop > step)
        return min(self.steps, step + self.pace.longest, *due, *stops)

    def rates(self, start: int, stop: int) -> NDArray[np.float32]:
        """Return the learning rates of the steps [start, stop), float32 [stop - start]."""
        factors = np.array([self.schedule.factor(step, self.steps) for step in range(start, stop)], np.float64)
        return (self.learning_rate * factors).astype(np.float32)


def peak_rate(config: TrainConfig) -> float:
    """Return the peak learning rate for the batch, which `train.rate_scaling` scales it to."""
    if (scaling := config.rate_scaling) is None:
        return config.learning_rate
    ratio = config.batch_size / scaling.batch_size
    return config.learning_rate * (ratio if scaling.kind == "linear" else float(ratio**0.5))


def make_plan(config: TrainConfig, examples: int, pauses: Iterable[int]) -> Plan:
    """Create the plan of a config for a number of examples.

    Raises:
        Refused: the schedule does not fit into the training.
    """
    steps = config.planned(examples)
    try:
        config.fit_schedule(steps)
    except Conflict as misfit:
        raise Refused(f"train.{misfit.field}", misfit.saw, misfit.rule, misfit.remedy) from None
    return Plan(
        steps,
        config.batch_size,
        examples,
        config.epochs,
        peak_rate(config),
        config.schedule,
        tuple(sorted(set(pauses))),
        config.order,
        () if config.tensorboard is None else config.tensorboard.trace,
    )


class Action(Protocol):
    """A callable that the loop runs at every multiple of `every` steps, and at the last step."""

    every: int

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None: ...


def train(
    engine: Engine,
    plan: Plan,
    checkpoints: StagedCheckpoints,
    meter: Meter,
    actions: Sequence[Action],
    stopping: Callable[[], int] = lambda: 0,
) -> int:
    """Train from the newest complete checkpoint to the plan's last step; return the step reached.

    It is an earlier one where an action ended the training, or where `stopping` of any process returned the number of a
    signal. The state at the step reached is saved.
    """
    step = checkpoints.restore(engine, meter)
    checkpoints.begin(engine, meter, step)
    engine.seek(step)
    while step < plan.steps and not meter.ended and not any(engine.group.totals([stopping()])):
        until = plan.next_stop(step)  # the nearest step at which an action is due
        sums = engine.step(plan.rates(step, until))  # sums over examples, not means
        plan.pace.update(until - step, sums.seconds)
        if (spike := meter.spikes.first(step, sums)) is not None:
            step = checkpoints.roll_back(engine, meter, spike)  # the weights of before it, and the step after it
            engine.seek(step)
        else:
            meter.add(sums)
            step = until
        for action in actions:
            if step % action.every == 0 or step == plan.steps:
                action(step, meter, engine)
    checkpoints.save(engine, meter, step)
    checkpoints.wait()  # until it is written
    return step
