"""Models that a method of compression makes, as `architecture.json` describes them; no preset has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from tasks.compression.config import MethodConfig
from tasks.compression.methods.method import ModelMethod
from tasks.config.base import NOT_IDENTITY
from tasks.config.kinds import any_of
from tasks.models import MODELS
from tasks.models.architecture import Architecture

if TYPE_CHECKING:
    import keras

    from tasks.models.forward import Function


class Derived(Architecture, place=100):
    """A model that is made from another one."""

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ()

    task: str
    """That of the other one."""
    model: StoredModel
    """The other one."""

    def own_files(self) -> dict[str, bytes]:
        """Return the files that the other one is built from, by path in `code/`."""
        return self.model.own_files()

    def at(self, folder: Path) -> Self:
        """Return the config of a model artifact in a folder, with the copies of its files in place of the user's."""
        return self.model_copy(update={"model": self.model.at(folder)})


class PreparedModel(Derived, place=101):
    """A model as it is while a method trains it."""

    kind: Literal["prepared"] = "prepared"
    """The architecture."""
    method: MethodConfig
    """The method."""
    teacher: Annotated[str, NOT_IDENTITY, Field(exclude=True)] = ""
    """The folder of the artifact that the model learns from, where the method has one."""

    @classmethod
    def of(cls, architecture: Any, method: ModelMethod) -> Self:
        """Return an architecture as a method trains it."""
        return cls(kind="prepared", task=architecture.task, model=architecture, method=method)

    @property
    def learns_from(self) -> Path | None:
        """The folder of the model whose outputs it learns from."""
        return Path(self.teacher) if self.teacher else None

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the architecture before, with new weights, and add what the method needs in training."""
        model = self.model.build(features, seed)
        self._method.attach(model)
        return model

    def added_loss(self, model: keras.Model) -> keras.KerasTensor | None:
        """Return what the architecture and the method add to the loss of each example, a symbolic float32 [B]."""
        losses = [self.model.added_loss(model), self._method.added_loss(model, Path(self.teacher))]
        both = [loss for loss in losses if loss is not None]
        return sum(both[1:], start=both[0]) if both else None

    @property
    def _method(self) -> ModelMethod:
        assert isinstance(self.method, ModelMethod), f"{self.method.kind} trains no model"
        return self.method


class FactoredModel(Derived, place=102):
    """A model some of whose layers are two, with fewer values between them."""

    kind: Literal["factored"] = "factored"
    """The architecture."""
    ranks: dict[str, int]
    """Values between the two, by the name of the layer."""

    def build(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the architecture before, with new weights, and factor layers."""
        from tasks.compression.keras_layers import factored

        return factored(self.model.build(features, seed), self.ranks)

    def functions(self, features: dict[str, Any], model: keras.Model) -> list[Function]:
        """Return those of the architecture before, with the same layers factored, over the variables of the model."""
        from tasks.compression.keras_layers import factored
        from tasks.models.decoding import over

        before = self.model.functions(features, self.model.build(features, 0))
        return [over(factored(each.graph, self.ranks), each.outputs, model) for each in before]


if TYPE_CHECKING:
    StoredModel = Architecture
else:
    StoredModel = any_of([*MODELS.values(), PreparedModel, FactoredModel])

for each in (Derived, PreparedModel, FactoredModel):
    each.model_rebuild()
