"""A model as it is while a method of compression trains it: the architecture before, and what the method adds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.compression import trained_method
from tasks.config.stored import PreparedModel
from tasks.models import added_loss as added_loss_of
from tasks.models import build as build_model

if TYPE_CHECKING:
    import keras


def build(config: PreparedModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the architecture before, with new weights, and add what the method needs in training."""
    inner: Any = config.model  # of any kind, also one that a method has made
    model = build_model(inner, features, seed)
    trained_method(config.method.kind).attach(config.method, model)
    return model


def added_loss(config: PreparedModel, model: keras.Model) -> keras.KerasTensor | None:
    """Return what the architecture and the method add to the loss of each example, a symbolic float32 [B]."""
    inner: Any = config.model
    added = added_loss_of(inner, model)
    if (make := getattr(trained_method(config.method.kind), "added_loss", None)) is None:
        return added
    by_method: keras.KerasTensor = make(config.method, model, Path(config.teacher))
    return by_method if added is None else added + by_method
