"""What the loop asks of a framework: integers and numpy arrays, nothing of TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterable
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

    def predict(self, batches: Iterable[Arrays]) -> NDArray[np.float32]:
        """The model's outputs, [rows, ...], for batches of features, without touching the state."""
        ...

    def state(self) -> Arrays:
        """Everything that decides the next step, by a stable name."""
        ...

    def load(self, state: Arrays) -> None:
        """Be as it was when this state was taken."""
