"""The loop of a training by itself: which steps it takes, which actions are due, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from tasks.training.loop import Pace, Plan, train
from tasks.training.meter import Meter, StepSums
from tasks.training.schedules import Constant


@dataclass
class Trace:
    """An engine and its checkpoints, which write down what they are asked for."""

    begins: int = 0
    signals: list[int] = field(default_factory=list)
    """What the other processes have got, call by call; afterwards nothing."""
    said: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = SimpleNamespace(totals=self.totals)

    def totals(self, values: list[int]) -> list[int]:
        return [values[0] + (self.signals.pop(0) if self.signals else 0)]

    def seek(self, step: int) -> None:
        self.said.append(("seek", step))

    def step(self, rates: np.ndarray) -> StepSums:
        self.said.append(len(rates))
        each = np.ones(len(rates))
        return StepSums({"loss": each, "weight": each}, each, each > 0, rates, len(rates), 0, 1.0, 0.0)

    def restore(self, engine: Any, meter: Meter) -> int:
        return self.begins

    def begin(self, engine: Any, meter: Meter, step: int) -> None:
        self.said.append(("begin", step))

    def save(self, engine: Any, meter: Meter, step: int) -> None:
        self.said.append(("save", step))

    def wait(self) -> None:
        self.said.append("wait")


@dataclass
class Due:
    every: int
    then: Callable[[int, Meter], None] = lambda step, meter: None
    steps: list[int] = field(default_factory=list)

    def __call__(self, step: int, meter: Meter, engine: Any) -> None:
        self.steps.append(step)
        self.then(step, meter)


def trained(trace: Trace, actions: Sequence[Due], steps: int = 10, stopping: Callable[[], int] = lambda: 0) -> int:
    pauses = tuple(action.every for action in actions)
    plan = Plan(steps, 4, 100, None, 0.1, Constant(), pauses, pace=Pace(most=4, longest=4, target=4.0))
    return train(trace, plan, trace, Meter(), actions, stopping)  # type: ignore[arg-type]


def test_actions_are_due_at_their_multiples_and_at_the_end() -> None:
    trace, three, five = Trace(begins=2), Due(3), Due(5)
    assert trained(trace, [three, five]) == 10
    assert (three.steps, five.steps) == ([3, 6, 9, 10], [5, 10])
    calls = [1, 2, 1, 3, 1]
    assert trace.said == [("begin", 2), ("seek", 2), *calls, ("save", 10), "wait"]


def test_a_signal_to_any_process_ends_all_at_the_same_step() -> None:
    """This one has got none; it asks before each call."""
    trace, due = Trace(signals=[0, 0, 15]), Due(3)
    assert trained(trace, [due]) == 6 and due.steps == [3, 6]
    assert trace.said[-2:] == [("save", 6), "wait"]
    asked = iter([0, 0, 15])
    assert trained(alone := Trace(), [Due(3)], stopping=lambda: next(asked)) == 6 and alone.said == trace.said


def test_an_action_that_ends_the_training_is_the_last_but_for_those_due_with_it() -> None:
    def end(step: int, meter: Meter) -> None:
        meter.ended = step >= 6

    trace, ending, beside, other = Trace(), Due(3, end), Due(2), Due(4)
    assert trained(trace, [ending, beside, other]) == 6
    assert (ending.steps, beside.steps, other.steps) == ([3, 6], [2, 4, 6], [4])
    assert trace.said[-2:] == [("save", 6), "wait"]
