"""Sums between two points of the curves, and the ledger of what was fed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.training.ledger import Ledger


@dataclass(frozen=True)
class StepSums:
    """What an engine brings back of some steps. Arrays have a value for each step."""

    sums: dict[str, NDArray[np.float64]]
    """Sums over the examples of a step: `loss` (weight times loss), `weight` (of the losses, class weights included),
    `seen` (how many answers were scored), and whatever else the objective counts of the answers, by its name."""
    gradient_norms: NDArray[np.float64]
    """Global norm of each step's gradient, before clipping."""
    finite: NDArray[np.bool_]
    """Whether each step's loss and gradient were finite."""
    rates: NDArray[np.float32]
    """Learning rates."""
    rows: NDArray[np.int64]
    """The example ids that were fed with a weight, in any order."""
    seconds: float
    """Time of the call, waiting for input included."""
    waited: float
    """Seconds of it spent waiting for input."""

    @property
    def steps(self) -> int:
        """How many they are."""
        return len(self.rates)


@dataclass
class Meter:
    """Sums since the last point, and the ledger; part of every checkpoint, so that curves too resume exactly."""

    ledger: Ledger = field(default_factory=Ledger)
    sums: dict[str, float] = field(default_factory=dict)
    """Over examples, by name; added step by step, so that they are the same however steps are cut into calls."""
    last: StepSums | None = None
    seconds: float = 0.0
    waited: float = 0.0
    steps: int = 0
    """Timed steps behind `seconds` and `waited`."""
    ended: bool = False
    """Whether the training has decided to end before the last step."""

    def add(self, call: StepSums) -> None:
        """Take in one call."""
        self.ledger.add(call.steps, call.rows)
        for name, values in call.sums.items():
            total = self.sums.get(name, 0.0)
            for value in values.tolist():
                total += value
            self.sums[name] = total
        if self.last is not None:  # the first call of a process compiles: it is not timed
            self.seconds += call.seconds
            self.waited += call.waited
            self.steps += call.steps
        self.last = call

    def means(self) -> dict[str, float]:
        """The loss by weight, and everything else that is counted by answers that were scored."""
        counted = {name: total for name, total in self.sums.items() if name not in ("loss", "weight", "seen")}
        return {"loss": self.sums["loss"] / self.sums["weight"]} | {
            name: total / self.sums["seen"] for name, total in counted.items()
        }

    def clear(self) -> None:
        """Begin the next interval of the curves."""
        self.sums = {}
        self.seconds = self.waited = 0.0
        self.steps = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: nothing timed."""
        return {"ledger": self.ledger.state(), "ended": self.ended, "sums": dict(self.sums)}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.ledger = Ledger.from_state(state["ledger"])
        self.clear()
        self.ended, self.sums = state["ended"], dict(state["sums"])
