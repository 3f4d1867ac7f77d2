"""Structured pruning: the hidden units, filters and attention heads of the smallest norm are left out, and the model is
trained again.

A filter with small weights changes the outputs least (Li et al., arXiv 1608.08710), and most heads of a trained model
are not needed (Michel et al., arXiv 1905.10650). The result is the same architecture with fewer units: smaller and
faster in every format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.compression.methods.method import FineTune, Trained
from tasks.config.base import LATER, Conflict
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

    from tasks.models import ModelConfig
    from tasks.models.features import Arrays


class PruneStructured(Trained):
    """Whole filters, hidden units and attention heads of the smallest norm are left out (Li et al., arXiv 1608.08710;
    Michel et al., arXiv 1905.10650), and the model is trained again: the same architecture, smaller and faster. For
    `mlp`, `convnet`, `convnet1d`, the channels within the blocks of `resnet`, and the heads and feed-forward layers of
    `encoder`, `transformer` and `vit`; of feed-forward layers with `experts` all units stay."""

    version: ClassVar[int] = 2

    kind: Literal["prune_structured"] = "prune_structured"
    """The method."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share of the units of each layer that is left out; one stays. 0: heads alone are left out."""
    heads: Annotated[float | None, LATER, Field(ge=0, lt=1)] = None
    """Share of the attention heads of each block that is left out, with `kv_heads` of the groups of heads that share
    keys and values; default: `share`."""
    norm: Literal["l1", "l2"] = "l1"
    """Norm of the weights of a unit; of a head of those that read it."""
    fine_tune: FineTune
    """The training of what is left."""

    @property
    def label(self) -> str:
        """The name of the method with its shares."""
        heads = "" if self.heads is None else f"_heads_{round(100 * self.heads)}"
        return f"{self.kind}_{round(100 * self.share)}{heads}"

    def share_of(self, part: Literal["units", "heads"]) -> float:
        """Return the share of the units or heads that is left out."""
        return self.heads if part == "heads" and self.heads is not None else self.share

    @model_validator(mode="after")
    def some_are_left_out(self) -> PruneStructured:
        if self.share == 0 and not self.heads:
            raise Conflict("share", self.share, "leaves nothing out", "raise it, or set heads")
        return self

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture with fewer units, and its weights.

        Raises:
            Failed: no units of the architecture can be left out, or the shares are those of no unit.
        """
        import numpy as np

        from tasks.compression.keras_layers import layers_with_kernels
        from tasks.models import MODELS
        from tasks.models.architecture import Architecture
        from tasks.training.initial import by_path

        known = architecture.prunable()
        if known is None or not known.groups:
            layers = f", layer {kept[0].name}" if (kept := layers_with_kernels(model)) else ""
            saw = f"prune_structured of a model of kind {architecture.kind}{layers}"
            prunable = (kind for kind, each in MODELS.items() if each.prunable is not Architecture.prunable)
            rule = f"what else reads its units is known only in {', '.join(prunable)}"
            raise Failed("compress.methods", saw, rule, "use prune, low_rank or distill")
        if self.heads is not None and all(group.part != "heads" for group in known.groups):
            saw = f"prune_structured, heads {self.heads} of a model of kind {architecture.kind}"
            raise Failed("compress.methods", saw, "it has no attention heads", "leave heads out, and set share")
        counts = [max(1, round(group.count * (1 - self.share_of(group.part)))) for group in known.groups]
        if counts == [group.count for group in known.groups]:
            saw = f"{self.label} of {', '.join(str(count) for count in dict.fromkeys(counts))} units of a layer"
            raise Failed("compress.methods", saw, "leaves none out", "raise share or heads, or leave the method out")
        weights = by_path(model)
        order = 1 if self.norm == "l1" else 2
        for group, count in zip(known.groups, counts, strict=True):
            largest = np.argsort(-group.norms(weights, order), kind="stable")[:count]
            weights |= group.sliced(weights, np.sort(largest))
        return known.smaller(counts), weights
