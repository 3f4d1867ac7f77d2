"""Norms of gradients and updates by group of layers, computed within the training step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

HALF_SQUARES = "half_squares"
"""Name of what a step returns: half the squared norm of each variable's gradient, [variables]."""
MOST, OTHERS = 50, "others"
"""Groups at most; the variables of further ones are in one group of this name."""


@dataclass(frozen=True)
class Groups:
    """The variables by group: a layer, or those whose names begin alike, as `block0_attention` and `block0_mlp`."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    """The number of each variable's group."""

    def norms(self, half_squares: np.ndarray) -> np.ndarray:
        """Return the norm of all variables and that of each group, [1 + groups], from half the squares of each norm."""
        squares = 2.0 * np.bincount(self.numbers, half_squares, len(self.names))
        norms: np.ndarray = np.sqrt([squares.sum(), *squares])
        return norms

    def by_name(self, gradients: np.ndarray, weights: np.ndarray, updates: np.ndarray) -> dict[str, float]:
        """Return the figures of a step by the names of metrics, from half the squared norms by variable."""
        norms, ratios = self.norms(gradients), _divided(self.norms(updates), self.norms(weights))
        groups = [f"/{name}" for name in self.names]
        return {f"gradient_norm{group}": float(norm) for group, norm in zip(groups, norms[1:], strict=True)} | {
            f"update_ratio{group}": float(ratio) for group, ratio in zip(["", *groups], ratios, strict=True)
        }


class Watched:
    """Measures weights before a step, and their change by it, in compiled functions of their own."""

    def __init__(self, variables: Sequence[keras.Variable]) -> None:
        self.groups = grouped(each.path for each in variables)
        self._copied = tf.function(lambda: [tf.identity(each.value) for each in variables], autograph=False)

        @tf.function(autograph=False)
        def half_squares(before: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            pairs = list(zip(variables, before, strict=True))
            updates = tf.stack([tf.nn.l2_loss(variable.value - values) for variable, values in pairs])
            return tf.stack([tf.nn.l2_loss(values) for values in before]), updates

        self._half_squares = half_squares

    def weights(self) -> list[tf.Tensor]:
        """Return copies of the weights, for `figures` after a step."""
        copies: list[tf.Tensor] = self._copied()
        return copies

    def figures(self, gradients: np.ndarray, before: list[tf.Tensor]) -> dict[str, float]:
        """Return norms of gradients, and of updates divided by those of the weights, by the names of metrics.

        Args:
            gradients: what the step has returned as `HALF_SQUARES`, without the loss scale.
            before: the weights before it.
        """
        weights, updates = (values.numpy().astype(np.float64) for values in self._half_squares(before))
        return self.groups.by_name(gradients, weights, updates)


def _divided(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return quotients, 0 where the divisor is 0."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def grouped(paths: Iterable[str]) -> Groups:
    """Return the groups of variables, by their paths, in the order of the model."""
    numbers: list[int] = []
    names: dict[str, int] = {}
    for path in paths:
        name = group_of(path)
        if name not in names and len(names) >= MOST - 1:
            name = OTHERS
        numbers.append(names.setdefault(name, len(names)))
    return Groups(tuple(names), tuple(numbers))


def group_of(path: str) -> str:
    """Return `block0` for the path `block0_attention_qkv/kernel`, and for others the outermost layer's name."""
    layer = path.split("/")[0]
    numbered = re.match(r"([A-Za-z]+\d+)_", layer)
    return numbered[1] if numbered else layer
