"""What a training has added up since the last point, and spikes of its loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import Failed
from tasks.training.group import Seconds
from tasks.training.ledger import Ledger
from tasks.training.sections import Rollback

TOTAL = "total_loss"
"""Name of the weighted sum of the losses of several outputs, which is minimised."""

FIELD = "train.on_spike"
CALMER = "lower train.learning_rate, lengthen train.schedule.warmup or set train.clip_norm"


@dataclass(frozen=True)
class Spike:
    """A step whose loss spikes: the step, its mean loss, and the highest of those it was compared with."""

    step: int
    loss: float
    highest: float | None


@dataclass
class Spikes:
    """Compares the loss of each step with those before it; part of checkpoints where `train.on_spike` is set."""

    config: Rollback | None = None
    recent: list[float] = field(default_factory=list)
    """Mean losses of the last steps, at most `window`."""
    rollbacks: list[dict[str, Any]] = field(default_factory=list)
    """Of each rollback: `step` (the one that spiked) and `to` (the step gone back to)."""
    seconds: float = 0.0
    """Seconds of calls whose steps were undone, since they were last asked for."""

    def first(self, step: int, call: StepSums) -> Spike | None:
        """Return the first step of a call from `step` on that spikes; the losses before it are remembered."""
        if self.config is None:
            return None
        weights, minimised = call.sums["weight"], call.sums.get(TOTAL, call.sums["loss"])
        losses = np.divide(minimised, weights, out=np.zeros_like(minimised), where=weights > 0)
        for number, (loss, finite) in enumerate(zip(losses.tolist(), call.finite.tolist(), strict=True)):
            highest = max(self.recent) if len(self.recent) == self.config.window else None
            if not finite or (highest is not None and loss > self._limit(highest)):
                self.seconds += call.seconds
                return Spike(step + number, loss, highest)
            self.recent = [*self.recent, loss][-self.config.window :]
        return None

    def _limit(self, highest: float) -> float:
        """Return the loss above which a step spikes: `factor` times the highest of the window, of losses above 0.

        A loss may be negative (that of a density's logarithm): what counts is the distance from the highest, measured
        by the largest magnitude in the window.
        """
        assert self.config is not None
        return highest + (self.config.factor - 1) * max(map(abs, self.recent))

    def check(self, spike: Spike) -> None:
        """Raise `Failed` where there were as many rollbacks as there may be."""
        assert self.config is not None
        if len(self.rollbacks) == self.config.most:
            saw = f"a loss of {spike.loss:.4g} at step {spike.step}; rollbacks before it: {self.config.most}"
            raise Failed(FIELD, saw, "train.on_spike.most allows no more", f"{CALMER}, or raise it")

    def target(self, steps: list[int], spike: Spike) -> int | None:
        """Return the newest of these steps up to the spike that no rollback has gone back to; None where all have."""
        used = {each["to"] for each in self.rollbacks}
        return max((step for step in steps if step <= spike.step and step not in used), default=None)

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; nothing where spikes are not looked for."""
        if self.config is None:
            return {}
        return {"spikes": {"recent": [*self.recent], "rollbacks": [dict(each) for each in self.rollbacks]}}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint, which a training that did not look for spikes does not have."""
        own = state.get("spikes", {"recent": [], "rollbacks": []})
        self.recent, self.rollbacks = own["recent"], own["rollbacks"]


@dataclass(frozen=True)
class StepSums:
    """The result of an engine's call of some steps. Arrays have a value for each step."""

    sums: dict[str, NDArray[np.float64]]
    """Sums over the examples of a step: `loss` (weight times loss), `weight` (of the losses, class weights included),
    `seen` (number of scored predictions), and the objective's metrics by name; of several outputs also `total_loss`,
    and those of the further ones as `<output>/loss`."""
    gradient_norms: NDArray[np.float64]
    """Global norm of each step's gradient, before clipping."""
    finite: NDArray[np.bool_]
    """Whether each step's loss and gradient were finite; under float16 the loss alone."""
    rates: NDArray[np.float32]
    """Learning rates."""
    fed: int
    """Number of rows (of the train split) with a weight above 0."""
    fed_hash: int
    """The hash of these rows (`tasks.training.ledger.hash_of`)."""
    seconds: float
    """Seconds of the call, waiting for input included; of several processes the longest time."""
    waited: float
    """Seconds of it spent waiting for input; of several processes the longest time."""
    skipped: NDArray[np.bool_] | None = None
    """Whether each step's update was skipped, as its float16 gradient was not finite; None: no step was."""
    loss_scales: NDArray[np.float64] | None = None
    """The loss scale of each step; None where losses are not scaled."""
    staleness: NDArray[np.int64] | None = None
    """Of asynchronous steps: how many updates of others were applied between the reading of a step's parameters and
    its own update; None where steps are synchronous."""
    norms: dict[str, float] = field(default_factory=dict)
    """Of the last step: `gradient_norm/GROUP` by group of layers, and the norm of the update divided by that of the
    weights, `update_ratio` and `update_ratio/GROUP`; empty where they were not measured."""
    ranks: list[Seconds] = field(default_factory=list)
    """The seconds of each process, by rank."""
    repeated: int = 0
    """Updates of this process' life that were applied once more, as a worker was lost after it had applied one."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.rates)


@dataclass
class Meter:
    """Sums since the last point of the curves, and the ledger; part of checkpoints, so that curves resume exactly."""

    ledger: Ledger = field(default_factory=Ledger)
    sums: dict[str, float] = field(default_factory=dict)
    """Sums over examples by name, added step by step, so that they do not depend on how steps are split into calls."""
    last: StepSums | None = None
    seconds: float = 0.0
    waited: float = 0.0
    steps: int = 0
    """Number of steps that `seconds` and `waited` measure."""
    validation_losses: dict[int, float] = field(default_factory=dict)
    """Of the evaluations of this process, by step."""
    ended: bool = False
    """Whether an action ended the training before the last step."""
    skipped: int = 0
    """Number of skipped updates since the first step."""
    skipped_last: int = 0
    """Number of skipped updates since the last one that was not."""
    staleness: list[int] = field(default_factory=list)
    """Of each asynchronous step since the last point of the curves."""
    spikes: Spikes = field(default_factory=Spikes)

    def add(self, call: StepSums) -> None:
        """Add the sums, rows and times of a call."""
        self.ledger.add(call.steps, call.fed, call.fed_hash)
        for name, values in call.sums.items():
            total = self.sums.get(name, 0.0)
            for value in values.tolist():
                total += value
            self.sums[name] = total
        for skipped in [] if call.skipped is None else call.skipped.tolist():
            self.skipped += skipped
            self.skipped_last = self.skipped_last + 1 if skipped else 0
        if call.staleness is not None:
            self.staleness += call.staleness.tolist()
        if self.last is not None:  # the first call of a process compiles: it is not timed
            self.seconds += call.seconds
            self.waited += call.waited
            self.steps += call.steps
        self.last = call

    def means(self) -> dict[str, float]:
        """Return the weighted means of the losses, and the means of the metrics over scored predictions."""
        weight, seen = self.sums["weight"], self.sums["seen"]
        counted = {name: total for name, total in self.sums.items() if name not in ("loss", "weight", "seen")}
        return {"loss": self.sums["loss"] / weight} | {
            name: total / (weight if name == TOTAL or name.endswith("/loss") else seen)
            for name, total in counted.items()
        }

    def clear(self) -> None:
        """Reset sums and times after a point of the curves."""
        self.sums, self.staleness = {}, []
        self.seconds = self.waited = 0.0
        self.steps = 0

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint; times are not part of it."""
        skipped = {"skipped": self.skipped, "skipped_last": self.skipped_last}
        own = {"ledger": self.ledger.state(), "ended": self.ended, "sums": dict(self.sums), **skipped}
        return own | self.spikes.state()

    def load(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.ledger = Ledger.from_state(state["ledger"])
        self.clear()
        self.ended, self.sums = state["ended"], dict(state["sums"])
        self.skipped, self.skipped_last = state["skipped"], state["skipped_last"]
        self.spikes.load(state)
