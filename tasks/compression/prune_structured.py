"""Structured pruning: the hidden units and filters of the smallest norm are left out, and the model is trained again.

A filter with small weights changes the outputs least (Li et al., arXiv 1608.08710). The result is the same architecture
with fewer units: smaller and faster in every format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config import ModelConfig
from tasks.config.model_methods import PruneStructured
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

    from tasks.models.features import Arrays

VERSION = 1


def prepare(config: PruneStructured, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture with fewer units, and its weights.

    Raises:
        Failed: no units of the architecture can be left out.
    """
    from tasks.compression.units import UNITS
    from tasks.training.starting import by_path

    known = UNITS[architecture.kind](architecture) if architecture.kind in UNITS else None
    if known is None or not known.groups:
        saw = f"prune_structured of a model of kind {architecture.kind}"
        rule = f"units are left out of {', '.join(UNITS)} (without experts)"
        raise Failed("compress.methods", saw, rule, "use prune, low_rank or distill")
    weights = by_path(model)
    order = 1 if config.norm == "l1" else 2
    counts = []
    for group in known.groups:
        counts.append(max(1, round(group.count * (1 - config.share))))
        largest = np.argsort(-group.norms(weights, order), kind="stable")[: counts[-1]]
        weights |= group.sliced(weights, np.sort(largest))
    return known.smaller(counts), weights


def attach(config: PruneStructured, model: keras.Model) -> None:
    """Leave the smaller model as it was built."""


def finish(config: PruneStructured, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture with fewer units, and its weights."""
    from tasks.training.starting import by_path

    return architecture, by_path(model)
