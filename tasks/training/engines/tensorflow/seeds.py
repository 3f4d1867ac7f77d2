"""Dropout seeds of replicas: each has a state of its own."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

SHIFT = 0x9E3779B9
"""Times the replica's number: what is added to the first word of a seed's state."""


def split_seeds(model: keras.Model, first_replica: int) -> None:
    """Give each replica dropout seeds of its own; Keras gives all the same. `first_replica` is that of this process.

    Must follow the creation of the model and every load, as a checkpoint has the first replica's state only.
    """
    for variable in model.variables:
        if variable.path.endswith("seed_generator_state"):
            replica_copies = copies(variable)
            for number, copy in enumerate(replica_copies, first_replica):
                copy.assign(copy + tf.constant([number * SHIFT % 2**32, 0], copy.dtype))
            different = len({tuple(copy.numpy()) for copy in replica_copies}) == len(replica_copies)
            assert different, f"{variable.path}: replicas share a seed"


def copies(variable: Any) -> list[Any]:
    """Return a variable's copies by replica; the variable's value alone on one device."""
    value = variable.value
    return list(getattr(value, "values", [value]))
