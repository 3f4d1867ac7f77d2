"""Selection of the best weights and early stopping: decided at evaluations, kept in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tasks.config import TrainConfig
from tasks.training.engines import Arrays


@dataclass
class BestWeights:
    """The best scores so far, the weights of `select: best`, and the evaluations without improvement."""

    config: TrainConfig

    losses: list[float] = field(default_factory=list)
    """The best validation loss so far, as a list of at most one; never a NaN."""
    watched: list[float] = field(default_factory=list)
    """The best value of the metric of `train.early_stopping` so far, as a list of at most one; lower is better."""
    waited: int = 0
    """Evaluations since `watched` improved by more than `train.early_stopping.delta`."""
    weights: Arrays = field(default_factory=dict)
    """The weights at the best validation loss, as `best/<name>`; empty unless `train.select` is best."""

    def update(self, scores: dict[str, float], weights: Callable[[], Arrays], watched: tuple[str, bool]) -> bool:
        """Take the scores of an evaluation by name, of these weights; return whether training should end.

        `watched` is that of the engine.
        """
        loss = scores["loss"]
        if self.config.select == "best" and _better(loss, self.losses):
            self.losses = [loss]
            self.weights = {f"best/{name}": values for name, values in weights().items()}
        stopping = self.config.early_stopping
        if stopping is None:
            return False
        value = loss
        if stopping.metric == "primary":
            name, higher_is_better = watched
            value = -scores[name] if higher_is_better else scores[name]
        if _better(value, self.watched, stopping.delta):
            self.watched, self.waited = [value], 0
        else:
            self.waited += 1
        return self.waited >= stopping.patience

    def best(self) -> Arrays:
        """Return the selected weights by the engine's names; empty where the last ones are used."""
        return {name.removeprefix("best/"): values for name, values in self.weights.items()}

    def state(self) -> dict[str, Any]:
        """Return the state without weights, for a checkpoint."""
        return {"losses": self.losses, "watched": self.watched, "waited": self.waited}

    def copy(self) -> tuple[dict[str, Any], Arrays]:
        """Return state and weights as they are now, which later evaluations do not change."""
        return {**self.state(), "losses": [*self.losses], "watched": [*self.watched]}, dict(self.weights)

    def load(self, state: dict[str, Any], weights: Arrays) -> None:
        """Restore the state of a checkpoint, as far as this config selects or ends by it: a base may have others."""
        selects, ends = self.config.select == "best", self.config.early_stopping is not None
        self.losses, self.weights = (state["losses"], weights) if selects else ([], {})
        self.watched, self.waited = (state["watched"], state["waited"]) if ends else ([], 0)


def _better(value: float, best: list[float], delta: float = 0.0) -> bool:
    """Return whether a finite value is below the best so far by more than `delta`, or is the first."""
    return isfinite(value) and (not best or value < best[0] - delta)
