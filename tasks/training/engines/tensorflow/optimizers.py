"""The Keras optimizer of `train.optimizer`; the learning rate is assigned at every step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tasks.errors import Failed
from tasks.training.optimizers import OptimizerConfig, named

INITIAL_SCALE = 2.0**15
"""The first loss scale of float16; it is halved at a gradient that is not finite, and doubled after 2,000 that are."""


def make_optimizer(
    config: OptimizerConfig,
    variables: Sequence[keras.Variable],
    precision: str = "float32",
    *,
    paths: Sequence[str] | None = None,
    ema: float | None = None,
) -> keras.optimizers.Optimizer:
    """Create the optimizer of a config, built for these variables; of float16 it scales the loss.

    Args:
        paths: paths of the variables in the model, where their own are others.
        ema: decay of the average of the weights at each step; None: there is no average.

    Raises:
        Failed: a pattern of `no_decay`, or of another setting with names of layers, names none.
    """
    average = {} if ema is None else {"use_ema": True, "ema_momentum": ema}
    paths = paths or [variable.path for variable in variables]
    for setting in ("no_decay", *config.layers):
        check_patterns(config, setting, paths)
    chosen = {
        argument: expressions(getattr(config, setting), variables, paths) for setting, argument in config.layers.items()
    }
    optimizer = config.create(**chosen, **average)
    optimizer.exclude_from_weight_decay(
        [
            variable
            for variable, path in zip(variables, paths, strict=True)
            if len(variable.shape) < 2
            or variable.name == "embeddings"
            or any(named(path, pattern) for pattern in config.no_decay)
        ]
    )
    if precision == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, INITIAL_SCALE)
    optimizer.build(variables)
    for variable, average in averages(optimizer):
        average.assign(variable)  # until the first update: float16 may skip it
    return optimizer


def check_patterns(config: OptimizerConfig, setting: str, paths: Sequence[str]) -> None:
    """Raise `Failed` where a pattern of a setting names none of these paths; the setting's default may."""
    patterns = getattr(config, setting)
    if patterns == type(config).model_fields[setting].default:
        return
    for pattern in patterns:
        if not any(named(path, pattern) for path in paths):
            rule = "names no layer that is trained"
            raise Failed(f"train.optimizer.{setting}", pattern, rule, f"use names of {', '.join(paths[:8])}")


def expressions(patterns: Sequence[str], variables: Sequence[keras.Variable], paths: Sequence[str]) -> list[str]:
    """Return a regular expression for the path of each variable that a pattern names by its path in the model."""
    pairs = zip(variables, paths, strict=True)
    chosen = [variable.path for variable, path in pairs if any(named(path, pattern) for pattern in patterns)]
    return [rf"\A{re.escape(path)}\Z" for path in chosen]


def inner(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return the optimizer within a loss scale, or itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def averages(optimizer: keras.optimizers.Optimizer) -> list[tuple[keras.Variable, keras.Variable]]:
    """Return the variables whose average is computed, each with it."""
    own = inner(optimizer)
    if not own.use_ema:
        return []
    return list(zip(own._trainable_variables, own._model_variables_moving_average, strict=True))


def apply_locally(optimizer: keras.optimizers.Optimizer) -> None:
    """Prevent a second all-reduce: Keras' optimizers reduce the gradients of replicas, which the step has done.

    A private method of Keras is replaced.
    """
    own = inner(optimizer)
    assert hasattr(own, "_all_reduce_sum_gradients"), "this Keras reduces gradients in another way"
    own._all_reduce_sum_gradients = lambda pairs: list(pairs)


def update_in_place(optimizer: keras.optimizers.Optimizer) -> None:
    """Compute the update of each variable on its device; otherwise all are computed on the first.

    A method of Keras that subclasses override, and a private one, are wrapped.
    """
    own = inner(optimizer)
    update, decay = own.update_step, own._apply_weight_decay

    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
        with tf.device(variable.device):
            update(gradient, variable, learning_rate)

    def apply_weight_decay(variables: list[Any]) -> None:
        for variable in variables:
            with tf.device(variable.value.device):
                decay([variable])

    own.update_step, own._apply_weight_decay = update_step, apply_weight_decay


def scale_rates(optimizer: keras.optimizers.Optimizer, factors: Sequence[float]) -> None:
    """Multiply the learning rate of each variable that the optimizer was built for by its factor, that of its weight
    decay included (Howard and Ruder, arXiv 1801.06146).

    A method of Keras that subclasses override, and a private one, are wrapped.
    """
    own = inner(optimizer)
    update, decay = own.update_step, own._apply_weight_decay

    def update_step(gradient: Any, variable: Any, learning_rate: Any) -> None:
        update(gradient, variable, learning_rate * factors[own._get_variable_index(variable)])

    def apply_weight_decay(variables: list[Any]) -> None:
        for variable in variables:
            if (factor := factors[own._get_variable_index(variable)]) == 1:
                decay([variable])
            elif own.weight_decay is not None and own._use_weight_decay(variable):
                variable.assign(variable - variable * own.weight_decay * factor * own.learning_rate)

    own.update_step, own._apply_weight_decay = update_step, apply_weight_decay
