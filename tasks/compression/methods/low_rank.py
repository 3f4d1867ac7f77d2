"""Low-rank factors: the kernel of a layer becomes the product of two smaller ones, and the model is trained again.

The product is the nearest one of its rank, by a singular value decomposition (Eckart and Young, Psychometrika 1, 1936),
of a dense kernel [inputs, outputs] or of a convolution's as [height x width x inputs, outputs] (Zhang et al., arXiv
1505.06798). Layers that would not become smaller stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tasks.compression.methods.method import FineTune, Trained
from tasks.errors import Failed

if TYPE_CHECKING:
    import keras
    import numpy as np
    import numpy.typing as npt

    from tasks.compression.stored import FactoredModel
    from tasks.models import ModelConfig
    from tasks.models.features import Arrays


class LowRank(Trained):
    """The kernel of a dense or convolutional layer becomes the product of two smaller ones (Zhang et al., arXiv
    1505.06798), by a singular value decomposition, and the model is trained again. Smaller by itself."""

    version: ClassVar[int] = 2

    kind: Literal["low_rank"] = "low_rank"
    """The method."""
    rank: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Values between the two layers; either this or `energy`."""
    energy: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of a kernel's squared singular values that is kept, from which the rank of each layer follows; either this
    or `rank`."""
    fine_tune: FineTune
    """The training of all layers."""

    @property
    def label(self) -> str:
        """The name of the method with its rank or share."""
        return f"{self.kind}_{self.rank if self.energy is None else f'e{round(100 * self.energy)}'}"

    @model_validator(mode="after")
    def rank_or_energy(self) -> LowRank:
        if (self.rank is None) == (self.energy is None):
            raise ValueError("needs exactly one of rank and energy; set one and leave the other out")
        return self

    def prepare(self, architecture: ModelConfig, model: keras.Model) -> tuple[FactoredModel, Arrays]:
        """Return the model with factors, and its weights.

        Raises:
            Failed: no layer becomes smaller, or the model is no graph of layers.
        """
        import numpy as np

        from tasks.compression.keras_layers import FACTOR
        from tasks.compression.stored import FactoredModel
        from tasks.training.initial import by_path

        ranks, weights = {}, by_path(model)
        for layer in factorable(model):
            kernel = np.asarray(layer.kernel)
            first, second = factors(kernel.reshape(-1, kernel.shape[-1]), self)
            if first.size + second.size >= kernel.size:
                continue
            ranks[layer.name] = rank = second.shape[0]
            path = layer.kernel.path
            weights[f"{path.removesuffix('/kernel')}{FACTOR}/kernel"] = first.reshape(*kernel.shape[:-1], rank)
            weights[path] = second.reshape(*(1,) * (kernel.ndim - 2), *second.shape)
        if not ranks:
            saw = f"low_rank, {'energy' if self.rank is None else 'rank'} {self.rank or self.energy}"
            rule = "no dense or convolutional layer of the model becomes smaller by it"
            raise Failed("compress.methods", saw, rule, "use a smaller one, or leave low_rank out")
        return FactoredModel(task=architecture.task, model=architecture, ranks=ranks), weights


def factors(kernel: npt.NDArray[np.float32], config: LowRank) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the factors [inputs, rank] and [rank, outputs] of a kernel, float32, each with the roots of the singular
    values. One thread, as sums by several would be in another order."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        left, values, right = np.linalg.svd(kernel.astype(np.float64), full_matrices=False)
        if config.energy is not None:
            kept = np.cumsum(values**2)
            rank = int(np.searchsorted(kept, config.energy * kept[-1])) + 1
        else:
            rank = config.rank or 1
        roots = np.sqrt(values[:rank])
        return (left[:, :rank] * roots).astype(np.float32), (roots[:, None] * right[:rank]).astype(np.float32)


def factorable(model: keras.Model) -> list[keras.Layer]:
    """Return the layers of a model's own graph that can be two: dense ones and convolutions of one group, but for those
    that are a factor already.

    Raises:
        Failed: the model is no graph of layers, or its output layer is all there is.
    """
    from keras import Sequential, layers
    from keras.src.models.functional import Functional

    from tasks.compression.keras_layers import FACTOR

    if not isinstance(model, Functional) or isinstance(model, Sequential):
        rule = "layers are replaced in a functional model"
        raise Failed("compress.methods", f"low_rank of a {type(model).__name__}", rule, "leave low_rank out")
    convolutions, names = (layers.Conv1D, layers.Conv2D), {layer.name for layer in model.layers}
    factors = names & {f"{name}{FACTOR}" for name in names}
    factors |= {name.removesuffix(FACTOR) for name in factors}
    return [
        layer
        for layer in model.layers
        if layer.name not in factors
        and (type(layer) is layers.Dense or (type(layer) in convolutions and layer.groups == 1))
    ]
