"""Models that a method of compression makes, as `architecture.json` describes them; no preset has them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from tasks.config.base import BY_KIND, NOT_IDENTITY
from tasks.config.methods import MethodConfig
from tasks.config.models import AnyModel
from tasks.config.models.architecture import Architecture


class Derived(Architecture):
    """A model that is made from another one."""

    noun: ClassVar[str] = "model"
    reads: ClassVar[tuple[str, ...]] = ()

    task: str
    """That of the other one."""
    model: StoredModel
    """The other one."""


class PreparedModel(Derived):
    """A model as it is while a method trains it."""

    kind: Literal["prepared"] = "prepared"
    """The architecture."""
    method: MethodConfig
    """The method."""
    teacher: Annotated[str, NOT_IDENTITY, Field(exclude=True)] = ""
    """The folder of the artifact that the model learns from, where the method has one."""


class FactoredModel(Derived):
    """A model some of whose layers are two, with fewer values between them."""

    kind: Literal["factored"] = "factored"
    """The architecture."""
    ranks: dict[str, int]
    """Values between the two, by the name of the layer."""


StoredModel = Annotated[AnyModel | PreparedModel | FactoredModel, BY_KIND]

for each in (Derived, PreparedModel, FactoredModel):
    each.model_rebuild()

STORED: TypeAdapter[Any] = TypeAdapter(StoredModel)
"""Reads the `model` of an `architecture.json`."""
