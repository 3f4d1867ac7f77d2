"""Fits `bucketize`: boundaries at quantiles of a sample of the train split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.transform import Bucketize
from tasks.reader.values import Values
from tasks.snapshots.transforms import CATEGORIES, Fitted, Known, Rows
from tasks.snapshots.transforms.graphs import STEP, Graph, stacked
from tasks.snapshots.transforms.samples import NumberSample
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf


class BucketFitter:
    """Learns boundaries between intervals of about equally many rows."""

    reads = True

    def __init__(self, name: str, config: Bucketize) -> None:
        self._name, self._config, self._sample = name, config, NumberSample()

    def add(self, values: Values, rows: Rows) -> None:
        """Learn from float32 [rows]."""
        self._sample.add(values, rows)

    def fitted(self) -> Fitted:
        """Return the transform."""
        values = self._sample.values
        inner = np.linspace(0, 1, self._config.buckets + 1)[1:-1]
        # A boundary at the smallest value would have nothing below it.
        boundaries = np.unique(np.quantile(values, inner)) if len(values) else np.empty(0)
        return _fitted(self._name, boundaries[boundaries > values[0]].tolist() if len(values) else [])


def fitter(name: str, feature: Feature, config: Bucketize, folder: Path) -> BucketFitter | Known:
    """Return a fitter of numbers; of one with given boundaries there is nothing to learn."""
    if config.boundaries:
        return Known(_fitted(name, list(config.boundaries)))
    return BucketFitter(name, config)


def _fitted(name: str, boundaries: list[float]) -> Fitted:
    state = {"kind": "bucketize", "boundaries": boundaries}
    size = len(boundaries) + 2
    return Fitted(state, {"names": [name], "sizes": [size]}, CATEGORIES, {"size": size})


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of numbers to int32 [n, columns, 1]."""
    exact = stacked([state["boundaries"] for state in states], np.inf)
    # No float32 but 0 is nearer to 0 than a step, while TensorFlow would take a subnormal boundary for 0.
    boundaries = np.where(np.abs(exact) < STEP, np.where(exact > 0, STEP, 0.0), exact)

    def apply(numbers: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        ids = 1 + tf.transpose(tf.raw_ops.UpperBound(sorted_inputs=boundaries, values=tf.transpose(numbers)))
        return tf.where(tf.math.is_nan(numbers), 0, ids)[..., tf.newaxis]

    return apply
