"""Adam (Kingma and Ba, arXiv 1412.6980)."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tasks.config.optimizer import Adam


def create(config: Adam, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """Create the optimizer; it does not depend on the variables."""
    return keras.optimizers.Adam(1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon)
