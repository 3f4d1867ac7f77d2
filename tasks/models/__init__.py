"""The section `model`: an architecture by `model.kind`, each a class in a file of this folder.

Whatever lists the kinds derives from the classes: a new one is a file with a subclass of `OwnArchitecture`. Files of
this folder import no framework at their top, as the config is read by processes that compute nothing; what is made of
Keras' layers is in `tasks.models.layers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tasks.config.base import BY_KIND, union_of
from tasks.config.kinds import import_kinds
from tasks.models.architecture import Architecture, OwnArchitecture

import_kinds(__name__, __path__)

MODELS: dict[str, type[Architecture]] = Architecture.kinds()
"""The sections by `model.kind`."""

if TYPE_CHECKING:
    OwnModel = OwnArchitecture
    AnyModel = Architecture
    ModelConfig = Architecture
else:
    OwnModel, AnyModel = union_of(OwnArchitecture.kinds().values()), union_of(MODELS.values())
    ModelConfig = Annotated[AnyModel, BY_KIND]


def models_for(snapshot: str) -> tuple[str, ...]:
    """Return the values of `model.kind` that read a kind of snapshot, the default one first."""
    return tuple(kind for kind, section in MODELS.items() if snapshot in section.reads)


def default_model(snapshot: str) -> Architecture:
    """Return the model of a kind of snapshot where none is given, with the defaults of its settings."""
    return MODELS[models_for(snapshot)[0]].model_validate({})


__all__ = ["MODELS", "AnyModel", "ModelConfig", "OwnModel", "default_model", "models_for"]
