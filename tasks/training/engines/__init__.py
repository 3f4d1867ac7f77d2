"""What the loop asks of a framework: integers and numpy arrays, nothing of TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.training.meter import Sums

Arrays = dict[str, NDArray[Any]]


class Engine(Protocol):
    """A model, its optimizer and its data on some devices."""

    def seek(self, step: int) -> None:
        """Have the examples of global step `step` come next."""

    def step(self, n: int) -> Sums:
        """Take n global steps in one compiled call."""
        ...

    def predict(self, batches: Iterable[Arrays]) -> Iterator[NDArray[np.float32]]:
        """The model's outputs for batches of features, batch by batch, without touching the state."""
        ...

    def score(self, batches: Iterable[Arrays]) -> tuple[float, float]:
        """Mean loss and mean rightness over batches, without smoothing, class weights or dropout."""
        ...

    def weights(self) -> Arrays:
        """What the model answers with, by a stable name: the state without the optimizer's part."""
        ...

    def state(self) -> Arrays:
        """Everything that decides the next step, by a stable name."""
        ...

    def load(self, state: Arrays) -> None:
        """Be as it was when this state was taken."""
