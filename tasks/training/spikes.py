"""Spikes of the loss: found step by step, so that a training that was killed goes back at the same step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.spikes import Rollback
from tasks.errors import Failed

if TYPE_CHECKING:
    from tasks.training.meter import StepSums

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
        weights = call.sums["weight"]
        losses = np.divide(call.sums["loss"], weights, out=np.zeros_like(call.sums["loss"]), where=weights > 0)
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
