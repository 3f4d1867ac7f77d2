"""What the sections of all architectures have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tasks.config.base import LATER, Conflict, Section
from tasks.config.strategy import StrategyConfig

Units = Annotated[int, Field(ge=1, le=65_536)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Predicts = Literal["classification", "multilabel", "anomaly", "ranking", "regression"]
"""The tasks of a model that predicts a label or numbers of an example."""


class Architecture(Section):
    """The section of an architecture."""

    noun: ClassVar[str]
    """Name of the architecture in a sentence."""
    reads: ClassVar[tuple[str, ...]]
    """The kinds of snapshot that it can be trained on."""
    own: ClassVar[bool] = False
    """Whether the user has brought the model, so that its code and files are part of the digest."""

    @classmethod
    def kinds(cls) -> dict[str, type[Architecture]]:
        """Return the architectures that there are by `kind`, those of models that methods of compression make
        included."""
        below = {kind: found for each in cls.__subclasses__() for kind, found in each.kinds().items()}
        kind = cls.model_fields["kind"].default if "kind" in cls.model_fields else None
        return below if kind is None else {kind: cls, **below}

    @property
    def inner(self) -> Any:
        """The architecture of the model that this one is made from; None where it is made from no other."""
        return None

    @property
    def learns_from(self) -> Path | None:
        """The folder of the model whose outputs it learns from; None where there is none."""
        return None

    @property
    def weights_file(self) -> str | None:
        """The file with weights that a training begins with."""
        return None

    def fit_image(self, height: int, width: int) -> None:
        """Raise `Conflict` where the architecture cannot read images of this size."""

    def fit_training(self, strategy: StrategyConfig, remat: bool) -> None:
        """Raise `Conflict` where the architecture cannot be trained under a strategy, or with `train.remat`."""

    def fit_start(self, given: bool) -> None:
        """Raise `Conflict` where weights of the model's own are not those that a training begins with.

        Args:
            given: whether `train.init` names the weights.
        """


Initializer = Literal[
    "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal", "orthogonal"
]


class OwnArchitecture(Architecture):
    """The section of an architecture of Millrace."""

    initializer: Annotated[Initializer | None, LATER] = None
    """How the kernels of dense and convolutional layers begin, by the name that Keras has for it; default: as the
    architecture's papers have it. Output layers, and kernels that begin at 0, stay as they are."""


def check_heads(width: int, heads: int, head_dim: int | None) -> None:
    """Raise `Conflict` where a head has an odd size, or where heads without one do not divide a width into even
    parts."""
    if head_dim is not None:
        if head_dim % 2:
            raise Conflict("head_dim", head_dim, "must be even", f"use {head_dim - 1} or {head_dim + 1}")
    elif width % (2 * heads):
        below = width // (2 * heads) * 2 * heads
        nearest = f"set model.width to {f'{below} or ' if below else ''}{below + 2 * heads}"
        raise Conflict("heads", heads, f"must cut width {width} into even parts", nearest)
