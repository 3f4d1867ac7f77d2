"""Architectures by `model.kind`: a model is a pure function of its config, the snapshot's features and a seed."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tasks.config.models import ModelConfig
from tasks.config.models.architecture import OwnArchitecture

if TYPE_CHECKING:
    import keras

    from tasks.models.decoding import Function

ARCHITECTURES = {
    "convnet": "tasks.models.convnet",
    "convnet1d": "tasks.models.convnet1d",
    "dlrm": "tasks.models.dlrm",
    "encoder": "tasks.models.encoder",
    "import": "tasks.models.imported",
    "keras_file": "tasks.models.from_file",
    "mlp": "tasks.models.mlp",
    "resnet": "tasks.models.resnet",
    "transformer": "tasks.models.transformer",
    "vit": "tasks.models.vit",
}
"""The module of each kind, imported on use; each has `build(config, features, seed)`, and may have
`added_loss` and `functions`. What a method of compression makes has them itself."""


def build(config: ModelConfig, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the untrained float32 model of a config.

    Args:
        config: the section `model` of the config.
        features: a snapshot manifest's `features`: `{name: {"shape": [...], "dtype": ..., "classes": [...]}}`.
        seed: seed of the initial weights and of dropout, each layer with its own (`layers.layer_seed`).

    Returns:
        A Keras model from an input named as the feature ([B, *shape], the feature's dtype) to float32 outputs
        ([B, classes], [B, targets], or [B, T, vocabulary] of a transformer); every layer has a name.

    Raises:
        Failed: the features do not fit the architecture.
    """
    model: keras.Model = _of(config, "build")(features, seed)
    if isinstance(config, OwnArchitecture) and config.initializer is not None:
        from tasks.models.layers import initialise

        initialise(model, config.initializer, seed)
    return model


def functions(config: ModelConfig, features: dict[str, Any], model: keras.Model) -> list[Function]:
    """Return further functions of a model that its exports have as signatures; none for most kinds."""
    make = _of(config, "functions")
    return [] if make is None else make(features, model)


def added_loss(config: ModelConfig, model: keras.Model) -> keras.KerasTensor | None:
    """Return what a training adds to the loss of each example, a symbolic float32 [B]; None for most kinds.

    It is computed from the model's layers, and no part of the model that is saved.
    """
    make = _of(config, "added_loss")
    return None if make is None else make(model)


def _of(config: ModelConfig, name: str) -> Any:
    """Return a function of the architecture of a config, of its arguments but the config; None where it has none."""
    if config.kind not in ARCHITECTURES:
        return getattr(config, name, None)
    function = getattr(import_module(ARCHITECTURES[config.kind]), name, None)
    return None if function is None else partial(function, config)
