"""Selection of the best weights and early stopping: decided at evaluations, kept in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tasks.config.train import TrainConfig
from tasks.training.engines import Arrays


@dataclass
class BestWeights:
    """The best scores so far, the weights of `select: best`, and the evaluations without improvement."""

    config: TrainConfig
    watched: tuple[str, bool] = ("loss", False)
    """The name of the score that stands for the primary metric, and whether higher is better."""

    selected: list[float] = field(default_factory=list)
    """The best score so far by which weights are selected, and the loss there; lower is better, and never a NaN; empty
    before the first."""
    awaited: list[float] = field(default_factory=list)
    """The best score of `train.early_stopping` so far, as a list of at most one; lower is better."""
    waited: int = 0
    """Evaluations since `awaited` improved by more than `train.early_stopping.delta`."""
    weights: Arrays = field(default_factory=dict)
    """The weights at the best score, as `best/<name>`; empty unless `train.select` is best."""

    def update(self, scores: dict[str, float], weights: Callable[[], Arrays]) -> bool:
        """Take the scores of an evaluation by name, of these weights; return whether training should end."""
        name, higher_is_better = self.watched
        loss, primary = scores["loss"], -scores[name] if higher_is_better else scores[name]
        if self.config.select == "best" and _better([primary, loss], self.selected):
            self.selected = [primary, loss]
            self.weights = {f"best/{name}": values for name, values in weights().items()}
        stopping = self.config.early_stopping
        if stopping is None:
            return False
        value = primary if stopping.metric == "primary" else loss
        if _better([value], self.awaited, stopping.delta):
            self.awaited, self.waited = [value], 0
        else:
            self.waited += 1
        return self.waited >= stopping.patience

    def best(self) -> Arrays:
        """Return the selected weights by the engine's names; empty where the last ones are used."""
        return {name.removeprefix("best/"): values for name, values in self.weights.items()}

    def state(self) -> dict[str, Any]:
        """Return the state without weights, for a checkpoint."""
        return {"selected": self.selected, "awaited": self.awaited, "waited": self.waited}

    def copy(self) -> tuple[dict[str, Any], Arrays]:
        """Return state and weights as they are now, which later evaluations do not change."""
        return {**self.state(), "selected": [*self.selected], "awaited": [*self.awaited]}, dict(self.weights)

    def load(self, state: dict[str, Any], weights: Arrays) -> None:
        """Restore the state of a checkpoint, as far as this config selects or ends by it: a base may have others."""
        selects, ends = self.config.select == "best", self.config.early_stopping is not None
        self.selected, self.weights = (state["selected"], weights) if selects else ([], {})
        self.awaited, self.waited = (state["awaited"], state["waited"]) if ends else ([], 0)


def _better(values: list[float], best: list[float], delta: float = 0.0) -> bool:
    """Return whether finite values are below the best so far, the first by more than `delta`, or are the first ones; of
    equal ones the next decide."""
    return all(map(isfinite, values)) and (not best or [values[0] + delta, *values[1:]] < best)
