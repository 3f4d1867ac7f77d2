"""Fits `quantile`: quantiles of a sample of the train split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.config.transform import Quantile
from tasks.reader.quantile import OUTPUTS
from tasks.snapshots.transforms import Fitted
from tasks.snapshots.transforms.graphs import Graph, filling, frexp, stacked
from tasks.snapshots.transforms.numbers import NumberFitter
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf


class QuantileFitter(NumberFitter):
    """Learns quantiles, each value once with the mean of its ranks."""

    config: Quantile

    def fitted(self) -> Fitted:
        """Return the transform."""
        values, levels = ranks(self.sample.values, self.config.quantiles)
        return self.finish({"values": values.tolist(), "levels": levels.tolist(), "output": self.config.output})


def fitter(name: str, feature: Feature, config: Quantile, folder: Path) -> QuantileFitter:
    """Return a fitter of numbers."""
    return QuantileFitter(name, feature, config, standardised=False)


def ranks(sample: NDArray[np.float64], quantiles: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return strictly ascending values and their ranks in [0, 1], at most `quantiles` of them."""
    if not len(sample):
        return np.zeros(1), np.full(1, 0.5)
    levels = np.linspace(0, 1, min(quantiles, max(2, len(sample))))
    values, place = np.unique(np.quantile(sample, levels), return_inverse=True)
    return values, np.bincount(place, levels) / np.bincount(place)


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers to float32."""
    import tensorflow as tf

    values, levels = (
        stacked([state["values"] for state in states], np.inf),
        stacked([state["levels"] for state in states], 0),
    )
    slopes = stacked([np.diff(state["levels"]) / np.diff(state["values"]) for state in states], 0)

    def change(numbers: tf.Tensor) -> tf.Tensor:
        inside = tf.transpose(tf.maximum(numbers, values[:, 0]))  # above the last value the slope is 0
        place = tf.raw_ops.UpperBound(sorted_inputs=values, values=inside) - 1
        slope, value, level = (tf.gather(table, place, batch_dims=1) for table in (slopes, values, levels))
        return OUTPUTS[states[0]["output"]](tf.transpose(slope * (inside - value) + level), tf, frexp)

    return filling(states, change)
