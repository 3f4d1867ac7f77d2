"""Keras optimizers by `train.optimizer.kind`: a module per kind with `create`; the rate is assigned at every step."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tasks.config.optimizer import OptimizerConfig

if TYPE_CHECKING:
    import keras

OPTIMIZERS = {
    "adam": "tasks.training.engines.tensorflow.optimizers.adam",
    "adamw": "tasks.training.engines.tensorflow.optimizers.adamw",
    "sgd": "tasks.training.engines.tensorflow.optimizers.sgd",
}
"""The module of each kind, imported on use."""


INITIAL_SCALE = 2.0**15
"""The first loss scale of float16; it is halved at a gradient that is not finite, and doubled after 2,000 that are."""


def make_optimizer(
    config: OptimizerConfig, variables: Sequence[keras.Variable], precision: str = "float32"
) -> keras.optimizers.Optimizer:
    """Create the optimizer of a config, built for these variables; of float16 it scales the loss."""
    import keras

    optimizer: keras.optimizers.Optimizer = import_module(OPTIMIZERS[config.kind]).create(config, variables)
    if precision == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, INITIAL_SCALE)
    optimizer.build(variables)
    return optimizer


def apply_locally(optimizer: keras.optimizers.Optimizer) -> None:
    """Prevent a second all-reduce: Keras' optimizers reduce the gradients of replicas, which the step has done.

    A private method of Keras is replaced.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    assert hasattr(inner, "_all_reduce_sum_gradients"), "this Keras reduces gradients in another way"
    inner._all_reduce_sum_gradients = lambda pairs: list(pairs)


def update_in_place(optimizer: keras.optimizers.Optimizer) -> None:
    """Compute the update of each variable on its device; otherwise all are computed on the first.

    A method of Keras that subclasses override, and a private one, are wrapped.
    """
    import tensorflow as tf

    inner = getattr(optimizer, "inner_optimizer", optimizer)
    update, decay = inner.update_step, inner._apply_weight_decay

    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
        with tf.device(variable.device):
            update(gradient, variable, learning_rate)

    def apply_weight_decay(variables: list[Any]) -> None:
        for variable in variables:
            with tf.device(variable.value.device):
                decay([variable])

    inner.update_step, inner._apply_weight_decay = update_step, apply_weight_decay
