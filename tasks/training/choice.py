"""Which weights become the model, and whether it is time to end: decided at evaluations, kept in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tasks.config import TrainConfig
from tasks.training.engine import Arrays, Engine


@dataclass
class Choice:
    """The best evaluation so far, its weights where they are wanted, and how many came after it."""

    config: TrainConfig
    higher_is_better: bool
    """Of the primary metric; of the loss, lower is."""

    losses: list[float] = field(default_factory=list)
    """The best validation loss so far, as a list of at most one."""
    watched: list[float] = field(default_factory=list)
    """The best score that `train.stop` watches, likewise."""
    waited: int = 0
    """Evaluations since `watched` was better by `train.stop.delta`."""
    weights: Arrays = field(default_factory=dict)
    """`best/...`: the weights at the best validation loss; empty unless `train.select` is best."""

    def see(self, loss: float, primary: float, engine: Engine) -> bool:
        """Take in an evaluation; whether training should end."""
        if self.config.select == "best" and (not self.losses or loss < self.losses[0]):
            self.losses = [loss]
            self.weights = {f"best/{name}": values for name, values in engine.weights().items()}
        stop = self.config.stop
        if stop is None:
            return False
        value = loss
        if stop.metric == "primary":
            value = -primary if self.higher_is_better else primary
        if not self.watched or value < self.watched[0] - stop.delta:
            self.watched, self.waited = [value], 0
        else:
            self.waited += 1
        return self.waited >= stop.patience

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
