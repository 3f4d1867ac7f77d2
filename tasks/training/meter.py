"""Sums between two points of the curves, and the ledger of what was fed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tasks.training.ledger import Ledger


@dataclass(frozen=True)
class Sums:
    """What a compiled call of some steps brings back."""

    steps: int
    loss: float
    """Sum over examples of weight times loss."""
    weight: float
    """Sum of the weights, class weights included."""
    correct: float
    """How many answers were right, whatever their weight; for regression the sum of squared errors."""
    seen: float
    """How many answers were scored."""
    gradient_norm: float
    """Global norm of the last step's gradient, before clipping."""
    finite: bool
    """Whether every step's loss and gradient were finite."""
    rate: float
    """Learning rate of the last step."""
    seconds: float
    """Time of the call, waiting for input included."""
    waited: float
    """Seconds of it spent waiting for input."""
    rows: Any
    """int64: the example ids that were fed with a weight, in any order."""


@dataclass
class Meter:
    """Sums since the last point, and the ledger; part of every checkpoint, so that curves too resume exactly."""

    ledger: Ledger = field(default_factory=Ledger)
    loss: float = 0.0
    weight: float = 0.0
    correct: float = 0.0
    seen: float = 0.0
    last: Sums | None = None
    seconds: float = 0.0
    waited: float = 0.0
    steps: int = 0
    """Timed steps behind `seconds` and `waited`."""
    ended: bool = False
    """Whether the training has decided to end before the last step."""

    def add(self, sums: Sums) -> None:
        """Take in one call."""
        self.ledger.add(sums.steps, sums.rows)
        self.loss += sums.loss
        self.weight += sums.weight
        self.correct += sums.correct
        self.seen += sums.seen
        if self.last is not None:  # the first call of a process compiles: it is not timed
            self.seconds += sums.seconds
            self.waited += sums.waited
            self.steps += sums.steps
        self.last = sums

    def clear(self) -> None:
        """Begin the next interval of the curves."""
        self.loss = self.weight = self.correct = self.seen = self.seconds = self.waited = 0.0
        self.steps = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: nothing timed."""
        sums = {"loss": self.loss, "weight": self.weight, "correct": self.correct, "seen": self.seen}
        return {"ledger": self.ledger.state(), "ended": self.ended, **sums}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.ledger = Ledger.from_state(state["ledger"])
        self.clear()
        self.ended = state["ended"]
        self.loss, self.weight = state["loss"], state["weight"]
        self.correct, self.seen = state["correct"], state["seen"]
