"""Which weights become the model, and whether it is time to end: decided at evaluations, kept in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tasks.config import TrainConfig
from tasks.training.engines import Arrays, Engine


@dataclass
class BestWeights:
    """The best evaluation so far, its weights where they are wanted, and how many came after it."""

    config: TrainConfig

    losses: list[float] = field(default_factory=list)
    """The best validation loss so far, as a list of at most one; a NaN is never the best."""
    watched: list[float] = field(default_factory=list)
    """The best score that `train.early_stopping` watches, likewise."""
    waited: int = 0
    """Evaluations since `watched` was better by `train.early_stopping.delta`."""
    weights: Arrays = field(default_factory=dict)
    """`best/...`: the weights at the best validation loss; empty unless `train.select` is best."""

    def see(self, scores: dict[str, float], engine: Engine) -> bool:
        """Take in the scores of an evaluation by name; whether training should end."""
        loss = scores["loss"]
        if self.config.select == "best" and _better(loss, self.losses):
            self.losses = [loss]
            self.weights = {f"best/{name}": values for name, values in engine.weights().items()}
        stopping = self.config.early_stopping
        if stopping is None:
            return False
        value = loss
        if stopping.metric == "primary":
            name, higher_is_better = engine.watched
            value = -scores[name] if higher_is_better else scores[name]
        if _better(value, self.watched, stopping.delta):
            self.watched, self.waited = [value], 0
        else:
            self.waited += 1
        return self.waited >= stopping.patience

    def best(self) -> Arrays:
        """The chosen weights by the engine's names; empty where the last ones are."""
        return {name.removeprefix("best/"): values for name, values in self.weights.items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the weights."""
        return {"losses": self.losses, "watched": self.watched, "waited": self.waited}

    def load(self, state: dict[str, Any], weights: Arrays) -> None:
        """Go on from a checkpoint."""
        self.losses, self.watched, self.waited = state["losses"], state["watched"], state["waited"]
        self.weights = weights


def _better(value: float, best: list[float], delta: float = 0.0) -> bool:
    """Whether a value is below the best so far by more than `delta`; any number is where there is none yet."""
    return isfinite(value) and (not best or value < best[0] - delta)
