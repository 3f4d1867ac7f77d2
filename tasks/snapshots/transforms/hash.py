"""`hash`: nothing is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.transform import Hash
from tasks.reader.cast import CATEGORY_BYTES
from tasks.snapshots.transforms import CATEGORIES, Fitted, Known
from tasks.snapshots.transforms.blake2b import BLOCK, digest8
from tasks.snapshots.transforms.graphs import Graph
from tasks.sources.features import Feature

if TYPE_CHECKING:
    import tensorflow as tf


def fitter(name: str, feature: Feature, config: Hash, folder: Path) -> Known:
    """Return the transform of categories."""
    state = {"kind": "hash", "buckets": config.buckets}
    return Known(Fitted(state, {"names": [name], "sizes": [config.buckets + 1]}, CATEGORIES))


def graph(states: Sequence[dict[str, Any]]) -> Graph:
    """Return the transforms of categories to int32 [n, columns, 1]."""
    counts = np.array([state["buckets"] for state in states], np.uint64)

    def apply(categories: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        buckets = digest8(categories, CATEGORY_BYTES // BLOCK) % counts
        return tf.where(categories == "", 0, 1 + tf.cast(buckets, tf.int32))[..., tf.newaxis]

    return apply
