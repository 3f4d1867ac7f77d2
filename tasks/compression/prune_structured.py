"""Structured pruning: the hidden units, filters and attention heads of the smallest norm are left out, and the model is
trained again.

A filter with small weights changes the outputs least (Li et al., arXiv 1608.08710), and most heads of a trained model
are not needed (Michel et al., arXiv 1905.10650). The result is the same architecture with fewer units: smaller and
faster in every format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.config.model_methods import PruneStructured
from tasks.errors import Failed
from tasks.models import MODELS, ModelConfig
from tasks.models.architecture import Architecture

if TYPE_CHECKING:
    import keras

    from tasks.models.features import Arrays

VERSION = 2


def prepare(config: PruneStructured, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture with fewer units, and its weights.

    Raises:
        Failed: no units of the architecture can be left out, or the shares are those of no unit.
    """
    from tasks.compression.kernels import layers_with_kernels
    from tasks.training.starting import by_path

    known = architecture.prunable()
    if known is None or not known.groups:
        layers = f", layer {kept[0].name}" if (kept := layers_with_kernels(model)) else ""
        saw = f"prune_structured of a model of kind {architecture.kind}{layers}"
        prunable = (kind for kind, each in MODELS.items() if each.prunable is not Architecture.prunable)
        rule = f"what else reads its units is known only in {', '.join(prunable)}"
        raise Failed("compress.methods", saw, rule, "use prune, low_rank or distill")
    if config.heads is not None and all(group.part != "heads" for group in known.groups):
        saw = f"prune_structured, heads {config.heads} of a model of kind {architecture.kind}"
        raise Failed("compress.methods", saw, "it has no attention heads", "leave heads out, and set share")
    counts = [max(1, round(group.count * (1 - config.share_of(group.part)))) for group in known.groups]
    if counts == [group.count for group in known.groups]:
        saw = f"{config.label} of {', '.join(str(count) for count in dict.fromkeys(counts))} units of a layer"
        raise Failed("compress.methods", saw, "leaves none out", "raise share or heads, or leave the method out")
    weights = by_path(model)
    order = 1 if config.norm == "l1" else 2
    for group, count in zip(known.groups, counts, strict=True):
        largest = np.argsort(-group.norms(weights, order), kind="stable")[:count]
        weights |= group.sliced(weights, np.sort(largest))
    return known.smaller(counts), weights


def attach(config: PruneStructured, model: keras.Model) -> None:
    """Leave the smaller model as it was built."""


def finish(config: PruneStructured, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
    """Return the architecture with fewer units, and its weights."""
    from tasks.training.starting import by_path

    return architecture, by_path(model)
