"""Norms of gradients and updates by group of layers, computed within the training step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

GROUP_NORMS, RATIOS = "group_norms", "update_ratios"
"""Names of what a step returns: [groups], and [1 + groups] with the ratio of all weights first."""
MOST, OTHERS = 50, "others"
"""Groups at most; the variables of further ones are in one group of this name."""


@dataclass(frozen=True)
class Groups:
    """The variables by group: a layer, or those whose names begin alike, as `block0_attention` and `block0_mlp`."""

    names: tuple[str, ...]
    numbers: tuple[int, ...]
    """The number of each variable's group."""

    def norms(self, half_squares: tf.Tensor) -> tf.Tensor:
        """Return the norm of each group, [groups], from half the squared norms of the variables' values."""
        return tf.sqrt(2.0 * tf.math.unsorted_segment_sum(half_squares, self.numbers, len(self.names)))

    def before(self, variables: Sequence[keras.Variable], last: tf.Tensor) -> list[tf.Tensor]:
        """Return the variables' values where this is the last step of a call, and else nothing in their place."""

        def nothing() -> list[tf.Tensor]:
            return [tf.zeros([0] * len(variable.shape), variable.value.dtype) for variable in variables]

        return tf.cond(last, lambda: [tf.identity(variable.value) for variable in variables], nothing)

    def ratios(self, variables: Sequence[keras.Variable], before: list[tf.Tensor], last: tf.Tensor) -> tf.Tensor:
        """Return the norm of the update divided by that of the weights before it, [1 + groups]; zeros but at the end of
        a call."""

        def measured() -> tf.Tensor:
            pairs = list(zip(variables, before, strict=True))
            updates = tf.stack([tf.nn.l2_loss(variable.value - values) for variable, values in pairs])
            weights = tf.stack([tf.nn.l2_loss(values) for values in before])
            update = tf.concat([[tf.sqrt(2.0 * tf.reduce_sum(updates))], self.norms(updates)], 0)
            return tf.math.divide_no_nan(
                update, tf.concat([[tf.sqrt(2.0 * tf.reduce_sum(weights))], self.norms(weights)], 0)
            )

        return tf.cond(last, measured, lambda: tf.zeros([1 + len(self.names)]))

    def by_name(self, norms: np.ndarray, ratios: np.ndarray) -> dict[str, float]:
        """Return the figures of a step by the names of metrics."""
        figures = {f"gradient_norm/{name}": float(norm) for name, norm in zip(self.names, norms, strict=True)}
        figures["update_ratio"] = float(ratios[0])
        return figures | {
            f"update_ratio/{name}": float(ratio) for name, ratio in zip(self.names, ratios[1:], strict=True)
        }


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
