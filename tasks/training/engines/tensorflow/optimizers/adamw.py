"""Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101)."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from tasks.config.optimizer import AdamW


def create(config: AdamW, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """Create the optimizer; weight decay does not apply to vectors (biases, norms) and embeddings."""
    optimizer = keras.optimizers.AdamW(
        1.0, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon, weight_decay=config.weight_decay
    )
    without_decay = [v for v in variables if len(v.shape) < 2 or v.name == "embeddings"]
    optimizer.exclude_from_weight_decay(without_decay)
    return optimizer
