"""What carries out the strategies, which distribute a global step over devices (`tasks.training.strategies`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import Step
from tasks.training.group import Group

Sums = dict[str, Any]
Run = Callable[[Arrays, np.ndarray], Sums]
"""From batches [n, batch, ...] and learning rates [n] of n steps to the results of each step, [n, ...] by name."""


class Placement(Protocol):
    """Places variables on devices, and compiles steps."""

    devices: int
    """Number of devices of this process, each with a replica."""

    group: Group
    """The processes of the training."""

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which variables are created."""
        ...

    def place(self, model: keras.Model) -> keras.Model:
        """Return the model with its variables on their devices; the optimizer's are created beside them afterwards."""
        ...

    def prepare(self, step: Step, batches: dict[str, tf.TensorSpec]) -> Run:
        """Return the compiled step, for batches of these names, shapes and dtypes."""
        ...

    def close(self) -> None:
        """Disconnect from the other processes."""
