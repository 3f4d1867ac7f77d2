"""The training loop over global steps; the engine computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tasks.training.engines import Engine
from tasks.training.meter import Meter, Spike
from tasks.training.plan import Plan


class Action(Protocol):
    """A callable that the loop runs at every multiple of `every` steps, and at the last step."""

    every: int

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None: ...


class Checkpoints(Protocol):
    """Saves and restores the state of a training (`tasks.training.checkpoints.StagedCheckpoints`)."""

    def restore(self, engine: Engine, meter: Meter) -> int: ...

    def begin(self, engine: Engine, meter: Meter, step: int) -> None: ...

    def save(self, engine: Engine, meter: Meter, step: int) -> None: ...

    def roll_back(self, engine: Engine, meter: Meter, spike: Spike) -> int: ...

    def wait(self) -> None: ...


def train(
    engine: Engine,
    plan: Plan,
    checkpoints: Checkpoints,
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
