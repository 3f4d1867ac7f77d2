"""The section `model`: an architecture by `model.kind`. Whatever lists the kinds derives from their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.kinds import any_of
from tasks.models import architectures as architectures
from tasks.models.architecture import Architecture, OwnArchitecture

MODELS: dict[str, type[Architecture]] = Architecture.kinds()
"""The sections by `model.kind`."""

if TYPE_CHECKING:
    OwnModel = OwnArchitecture
    ModelConfig = Architecture
else:
    OwnModel = any_of(OwnArchitecture.kinds().values())
    ModelConfig = any_of(MODELS.values())


def models_for(snapshot: str) -> tuple[str, ...]:
    """Return the values of `model.kind` that read a kind of snapshot, the default one first."""
    return tuple(kind for kind, section in MODELS.items() if snapshot in section.reads)


def default_model(snapshot: str) -> Architecture:
    """Return the model of a kind of snapshot where none is given, with the defaults of its settings."""
    return MODELS[models_for(snapshot)[0]].model_validate({})


__all__ = ["MODELS", "ModelConfig", "OwnModel", "default_model", "models_for"]
