"""Norms of gradients and updates by group of layers, computed within the training step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from tasks.training.engines import Arrays
from tasks.training.engines.tensorflow.step import HALF_SQUARES
from tasks.training.engines.tensorflow.strategies import Run, Sums

POINTS = 5
"""Updates are measured at so many points of the curves, then at each fifth: it needs a copy of the weights."""
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

    def by_name(self, norms: np.ndarray) -> dict[str, float]:
        """Return a number for all variables, and one for each group, by name: "", and `/` with the group's."""
        return {name: float(norm) for name, norm in zip(["", *(f"/{each}" for each in self.names)], norms, strict=True)}


class Watched:
    """Measures norms at points of the curves: of gradients at each, of updates at the first five and each fifth."""

    def __init__(self, variables: Sequence[keras.Variable], log_every: int) -> None:
        self._groups, self._every = grouped(each.path for each in variables), log_every
        self._copied = tf.function(lambda: [tf.identity(each.value) for each in variables], autograph=False)

        @tf.function(autograph=False)
        def half_squares(before: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            pairs = list(zip(variables, before, strict=True))
            updates = tf.stack([tf.nn.l2_loss(variable.value - values) for variable, values in pairs])
            return tf.stack([tf.nn.l2_loss(values) for values in before]), updates

        self._half_squares = half_squares

    def run(self, run: Run, batches: Arrays, rates: np.ndarray, until: int) -> tuple[Sums, dict[str, float]]:
        """Run the steps up to `until`; return their results, and the norms of the last one by the names of metrics.

        Norms are empty where `until` is no point. A last step whose update is measured is a call of its own.
        """
        if until % self._every:
            returned = run(batches, rates)
            del returned[HALF_SQUARES]
            return returned, {}
        if (number := until // self._every) > POINTS and number % POINTS:
            returned = run(batches, rates)
            return returned, self._gradients(returned.pop(HALF_SQUARES)[-1])
        last, results = len(rates) - 1, []
        if last:
            results.append(run({name: each[:last] for name, each in batches.items()}, rates[:last]))
        before: list[tf.Tensor] = self._copied()
        results.append(run({name: each[last:] for name, each in batches.items()}, rates[last:]))
        returned = {name: np.concatenate([result[name] for result in results]) for name in results[0]}
        return returned, self._gradients(returned.pop(HALF_SQUARES)[-1]) | self._ratios(before)

    def _gradients(self, half_squares: np.ndarray) -> dict[str, float]:
        """Return norms of gradients by group, by the names of metrics, from what a step has returned."""
        norms = self._groups.by_name(self._groups.norms(half_squares))
        return {f"gradient_norm{group}": norm for group, norm in norms.items() if group}

    def _ratios(self, before: list[tf.Tensor]) -> dict[str, float]:
        """Return the norms of an update divided by those of the weights before it, by the names of metrics."""
        weights, updates = (
            self._groups.norms(values.numpy().astype(np.float64)) for values in self._half_squares(before)
        )
        quotients = np.divide(updates, weights, out=np.zeros_like(updates), where=weights > 0)
        return {f"update_ratio{group}": ratio for group, ratio in self._groups.by_name(quotients).items()}


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
