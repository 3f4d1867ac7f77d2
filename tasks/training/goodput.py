"""Goodput: where the time of a training goes, in seconds that add up to those of its process.

The term is of Google's "ML Productivity Goodput" (2023): the share of the time in which steps of the model are computed
that have not been computed before.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tasks.training.engines import Engine
from tasks.training.loop import Action
from tasks.training.meter import Meter

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
