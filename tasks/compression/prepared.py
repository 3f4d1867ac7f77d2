"""A model as it is while a method of compression trains it: the architecture before, and what the method adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.compression import trained_method
from tasks.config.stored import PreparedModel
from tasks.models import brought
from tasks.models import build as build_model

if TYPE_CHECKING:
    import keras


def build(config: PreparedModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the architecture before, with new weights, and add what the method needs in training."""
    inner: Any = config.model  # of any kind, also one that a method has made
    if config.folder:
        inner = brought.at(inner, Path(config.folder))
    model = build_model(inner, features, seed)
    trained_method(config.method.kind).attach(config.method, model)
    return model
