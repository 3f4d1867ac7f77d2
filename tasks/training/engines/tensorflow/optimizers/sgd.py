"""Stochastic gradient descent, with momentum (Sutskever et al., ICML 2013) where it is not 0."""

from __future__ import annotations

import keras

from tasks.config.train import Sgd


def create(config: Sgd, model: keras.Model) -> keras.optimizers.Optimizer:
    """Create the optimizer; it does not depend on the model."""
    return keras.optimizers.SGD(1.0, momentum=config.momentum, nesterov=config.nesterov)
