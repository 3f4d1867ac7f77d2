"""A model in a file of Keras."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from tasks.config.base import NOT_IDENTITY, PATTERNS, Conflict, IsPath
from tasks.config.models.architecture import Architecture, Predicts

FILES = r"\.(keras|json)$"
PATTERNS[FILES] = "must end in .keras"


class KerasFileModel(Architecture):
    """The architecture of a file `*.keras`, read in Keras' safe mode: layers of Keras alone, no code."""

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ("image", "table", "tokens")
    own: ClassVar[bool] = True

    kind: Literal["keras_file"] = "keras_file"
    """The architecture."""

    task: Predicts | Literal["tagging", "language_model"] = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    path: Annotated[str, NOT_IDENTITY, IsPath(), StringConstraints(pattern=FILES, max_length=4096)]
    """The file; its architecture is part of the digest."""

    weights: bool = False
    """Whether the training begins with the file's weights; default: with new ones, by the seed."""

    @property
    def weights_file(self) -> str | None:
        """The file with weights that a training begins with."""
        return self.path if self.weights and self.path.endswith(".keras") else None

    def fit_start(self, given: bool) -> None:
        """Raise `Conflict` for weights that there are not, or that `train.init` would replace."""
        if self.weights and self.weights_file is None:
            rule = f"is ignored: {self.path} has an architecture alone"
            raise Conflict("weights", True, rule, "name a .keras file, or leave it out")
        if self.weights and given:
            rule = "is ignored: train.init names the weights that the training begins with"
            raise Conflict("weights", True, rule, "leave out one of them")
