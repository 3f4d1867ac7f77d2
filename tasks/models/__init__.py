"""Architectures by kind: a model is a pure function of its config, the snapshot's features and a seed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tasks.config import ModelConfig

if TYPE_CHECKING:
    import keras

ARCHITECTURES = {
    "convnet": "tasks.models.convnet",
    "mlp": "tasks.models.mlp",
    "transformer": "tasks.models.transformer",
}
"""One module per kind, each with `build(config, features, seed)`; named here, imported when asked for."""


def build(config: ModelConfig, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the untrained float32 model of a config.

    Args:
        config: the section `model`.
        features: a snapshot manifest's `features`: `{name: {"shape": [...], "dtype": ..., "classes": [...]}}`.
        seed: decides the initial weights and dropout, each layer by its own name.

    Returns:
        A Keras model from an input named as the feature ([B, *shape], the feature's dtype) to float32 outputs
        ([B, classes], [B, targets], of a transformer [B, T, vocabulary]), every layer named.

    Raises:
        Failed: the features do not fit the architecture.
    """
    model: keras.Model = import_module(ARCHITECTURES[config.kind]).build(config, features, seed)
    return model
