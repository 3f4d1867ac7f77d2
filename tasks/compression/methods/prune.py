"""Pruning: methods that give weights of a model other values, so that gzip finds more in its file (zeros, or few
values), and one that leaves out whole units.

A file with zeros has the same size and speed: LiteRT multiplies by zeros, too. With fewer units, filters and attention
heads the architecture is the same, smaller and faster in every format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from tasks.compression.methods.method import FineTune, ModelMethod, Trained
from tasks.config.base import LATER, Conflict
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras

    from tasks.models import ModelConfig
    from tasks.models.features import Arrays


if TYPE_CHECKING:
    import keras
    import numpy as np
    import numpy.typing as npt

    from tasks.compression.keras_layers import MaskedTogether
    from tasks.compression.stored import PreparedModel
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays

    Weights = npt.NDArray[np.float32]

GROUP, ZEROS = 4, 2
"""Of so many weights so many become 0."""


class Prune(ModelMethod):
    """The smallest weights of dense and convolutional layers become 0 (Han et al., arXiv 1506.02626), or two of each
    four along the inputs (2:4); at once, or little by little while the model is trained (Zhu and Gupta, arXiv
    1710.01878). Smaller after gzip only; put a method that quantises behind it."""

    version: ClassVar[int] = 2
    size_ratio: ClassVar[float] = 1.05
    undone_by_training: ClassVar[bool] = True

    kind: Literal["prune"] = "prune"
    """The method."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the weights that become 0."""
    pattern: Literal["any", "2:4"] = "any"
    """Which weights: those of the smallest magnitude, or the two smallest of each four inputs of an output."""
    scope: Literal["global", "layer"] = "global"
    """Whether the share is of all layers together or of each layer."""
    fine_tune: Annotated[FineTune | None, LATER] = None
    """A training in which the zeros become more; default: none, and all weights become 0 at once."""
    ramp: Annotated[float, LATER, Field(gt=0, le=1)] = 0.5
    """Share of the steps of `fine_tune` in which the zeros become more, by a cubic schedule; then they are fixed."""

    @property
    def label(self) -> str:
        """The name of the method with its pattern or share."""
        trained = "" if self.fine_tune is None else "_trained"
        return f"{self.kind}{trained}_{'2of4' if self.pattern == '2:4' else round(100 * self.share)}"

    @property
    def training(self) -> FineTune | None:
        """The training in which the zeros become more."""
        return self.fine_tune

    @property
    def gzip_limit(self) -> float:
        """What gzip leaves of so many zeros, with a margin: half of their share is saved at least."""
        return 1 - self.share / 2

    @model_validator(mode="after")
    def a_pattern_has_its_share(self) -> Prune:
        for name in ("share", "scope"):
            if self.pattern != "any" and (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise Conflict(name, value, f"is ignored by pattern {self.pattern}", "leave it out, or use pattern any")
        return self

    @model_validator(mode="after")
    def a_ramp_has_steps(self) -> Prune:
        if self.fine_tune is None and self.ramp != type(self).model_fields["ramp"].default:
            remedy = "leave it out, or add fine_tune: {steps: ...}"
            raise Conflict("ramp", self.ramp, "is the share of the steps of a fine_tune that is not there", remedy)
        return self

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return a third of the weights, and two of four; nothing that trains."""
        return {"prune_30": cls(kind="prune", share=0.3), "prune_2of4": cls(kind="prune", pattern="2:4")}

    def change(self, model: keras.Model) -> None:
        """Set weights of a model to 0.

        Raises:
            Failed: no layer has inputs in groups of four.
        """
        import numpy as np

        from tasks.compression.keras_layers import kernels

        variables = kernels(model)
        values = {variable.path: np.asarray(variable) for variable in variables}
        if self.pattern == "2:4":
            pruned = {path: two_of_four(each) for path, each in values.items() if each.shape[-2] % GROUP == 0}
            if not pruned:
                raise no_fours({path: each.shape for path, each in values.items()})
        elif self.scope == "layer":
            pruned = {path: without_smallest([each], self.share)[0] for path, each in values.items()}
        else:
            pruned = dict(zip(values, without_smallest(list(values.values()), self.share), strict=True))
        for variable in variables:
            if variable.path in pruned:
                variable.assign(pruned[variable.path])

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[PreparedModel, Arrays]:
        """Return the model with masks, all of them 1, and its weights."""
        from tasks.compression.stored import PreparedModel
        from tasks.training.initial import by_path

        self.masked(model)  # raises what does not fit
        return PreparedModel.of(architecture, self), by_path(model)

    def attach(self, model: keras.Model) -> None:
        """Add masks to a model, whose zeros become more at each of the first steps of the training."""
        from tasks.compression.keras_layers import add_masks

        assert self.fine_tune is not None
        add_masks(model, self.masked(model), max(1, round(self.ramp * self.fine_tune.steps)))

    def finish(self, architecture: PreparedModel, model: keras.Model) -> tuple[Any, Arrays]:
        """Return the architecture without masks, and the weights: as many are 0 as the method says.

        These are 0 already, unless the weights are an average over steps (`train.ema`).
        """
        self.change(model)
        return super().finish(architecture.model, model)

    def masked(self, model: keras.Model) -> list[MaskedTogether]:
        """Return the kernels that are pruned together; raises `Failed` where none has inputs in groups of four."""
        from tasks.compression.keras_layers import MaskedTogether, layers_with_kernels

        layers = layers_with_kernels(model)
        if self.pattern == "2:4":
            divisible = [layer for layer in layers if layer.kernel.shape[-2] % GROUP == 0]
            if not divisible:
                raise no_fours({layer.kernel.path: layer.kernel.shape for layer in layers})
            return [
                MaskedTogether([layer], size_of(layer) * ZEROS // GROUP, smaller_two_of_four) for layer in divisible
            ]
        if self.scope == "layer":
            return [MaskedTogether([layer], int(self.share * size_of(layer))) for layer in layers]
        return [MaskedTogether(layers, int(self.share * sum(map(size_of, layers))))]


class Cluster(ModelMethod):
    """The weights of each dense and convolutional layer take few values (Han et al., arXiv 1510.00149). Smaller after
    gzip only."""

    version: ClassVar[int] = 2
    size_ratio: ClassVar[float] = 1.05
    gzip_ratio: ClassVar[float] = 0.5
    undone_by_training: ClassVar[bool] = True
    moves_weights: ClassVar[bool] = True

    kind: Literal["cluster"] = "cluster"
    """The method."""
    clusters: Annotated[int, Field(ge=2, le=256)] = 16
    """Values of a layer."""

    @property
    def label(self) -> str:
        """The name of the method with the number of values."""
        return f"{self.kind}_{self.clusters}"

    @classmethod
    def tried(cls, limit: float | None) -> dict[str, Self]:
        """Return many values of a layer, and few."""
        return {f"cluster_{count}": cls(kind="cluster", clusters=count) for count in (64, 16)}

    def change(self, model: keras.Model) -> None:
        """Replace the weights of each layer by the nearest of its `clusters` values, which k-means places; 0 stays 0,
        as one of them, so that a pruned layer stays pruned.

        The values begin evenly spaced from the smallest weight to the largest one, which keeps large weights better
        than a random start (section 3.2 there). One thread, as sums by several would be in another order.
        """
        import numpy as np
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        from tasks.compression.keras_layers import kernels

        for variable in kernels(model):
            weights = np.array(variable)
            placed = weights != 0
            values, count = weights[placed], self.clusters - (not placed.all())
            if np.unique(values).size <= count:
                continue
            start = np.linspace(values.min(), values.max(), count, dtype=np.float32)[:, None]
            with threadpool_limits(1):
                fitted = KMeans(count, init=start, n_init=1).fit(values[:, None])
            weights[placed] = fitted.cluster_centers_[fitted.labels_, 0]
            variable.assign(weights)


def smaller_two_of_four(magnitudes: Any) -> Any:
    """Return which of the magnitudes [.., inputs, outputs] are the two smallest of each four inputs of an output."""
    from keras import ops

    groups = ops.moveaxis(magnitudes, -2, -1)
    shape = groups.shape
    ranks = ops.argsort(ops.argsort(ops.reshape(groups, (-1, GROUP))))
    return ops.moveaxis(ops.reshape(ops.less(ranks, ZEROS), shape), -1, -2)


def size_of(layer: keras.Layer) -> int:
    """Return the number of weights of a layer's kernel."""
    return math.prod(layer.kernel.shape)


def no_fours(shapes: Mapping[str, Sequence[int]]) -> Failed:
    """Return the error of a model without inputs in groups of four."""
    saw = ", ".join(f"{path} {list(shape)}" for path, shape in shapes.items()) or "no layer with weights"
    rule = "a layer is pruned 2:4 where its inputs divide by 4"
    return Failed("compress.methods", f"prune 2:4: {saw}", rule, "use pattern: any")


def without_smallest(kernels: list[Weights], share: float) -> list[Weights]:
    """Return kernels of which this share of all weights, the smallest in magnitude, is 0; of equal ones the first."""
    import numpy as np

    flat = np.concatenate([kernel.ravel() for kernel in kernels])
    smallest = np.argsort(np.abs(flat), kind="stable")[: int(share * flat.size)]
    flat[smallest] = 0
    ends = np.cumsum([kernel.size for kernel in kernels])[:-1]
    return [part.reshape(kernel.shape) for part, kernel in zip(np.split(flat, ends), kernels, strict=True)]


def two_of_four(kernel: Weights) -> Weights:
    """Return a kernel [.., inputs, outputs] in which the two smallest of each four inputs of an output are 0."""
    import numpy as np

    groups = np.moveaxis(kernel, -2, -1)
    shape = groups.shape
    groups = groups.reshape(-1, GROUP).copy()
    smallest = np.argsort(np.abs(groups), axis=-1, kind="stable")[:, :ZEROS]
    np.put_along_axis(groups, smallest, 0, axis=-1)
    return np.moveaxis(groups.reshape(shape), -1, -2)


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
