"""The loop. It sees steps and sums; what computes them stands behind the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tasks.training.engines import Engine
from tasks.training.meter import Meter
from tasks.training.plan import Plan


class Action(Protocol):
    """Something done every so many steps, and at the last one."""

    every: int

    def __call__(self, step: int, meter: Meter, engine: Engine) -> None: ...


class Checkpoints(Protocol):
    """Where the state is committed, and found again."""

    def restore(self, engine: Engine, meter: Meter) -> int: ...

    def save(self, engine: Engine, meter: Meter, step: int) -> None: ...


def train(
    engine: Engine,
    plan: Plan,
    checkpoints: Checkpoints,
    meter: Meter,
    actions: Sequence[Action],
    stopping: Callable[[], int] = lambda: 0,
) -> int:
    """Take the plan's global steps, going on from the newest whole checkpoint; returns the step reached.

    That is the last one unless an action ended the training, or `stopping` asked to leave, in which case the state is
    saved where it stands.
    """
    step = checkpoints.restore(engine, meter)
    engine.seek(step)
    while step < plan.steps and not meter.ended and not stopping():
        until = plan.next_stop(step)  # the nearest step at which an action is due
        sums = engine.step(until - step)  # one compiled call; sums over examples, not means
        plan.pace.took(until - step, sums.seconds)
        meter.add(sums)
        step = until
        for action in actions:
            if step % action.every == 0 or step == plan.steps:
                action(step, meter, engine)
    checkpoints.save(engine, meter, step)
    return step
