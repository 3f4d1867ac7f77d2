"""Stochastic gradient descent, with momentum (Sutskever et al., ICML 2013) where it is not 0."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tasks.config.optimizer import Sgd


def create(config: Sgd, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """Create the optimizer; it does not depend on the variables."""
    return keras.optimizers.SGD(1.0, momentum=config.momentum, nesterov=config.nesterov)
