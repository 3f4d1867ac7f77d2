"""Keras layers with a name, initialised by a seed that depends on the name and not on the order of creation."""

from __future__ import annotations

import hashlib
from typing import Any

import keras

from tasks.config.task import LABEL, TARGET, TASKS
from tasks.models.features import Input, classes, targets


def layer_seed(seed: int, name: str) -> int:
    """Derive a layer's 31-bit seed from the model's seed and the layer's name."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest(), "little") >> 1


def input_layer(feature: Input) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Create the input [B, *shape] in the snapshot's dtype; return it, and the same as float32.

    uint8 is scaled to [-1, 1]; numbers whose mean and variance the snapshot has are standardised.
    """
    inputs = keras.Input(feature.shape, dtype=feature.dtype, name=feature.name)
    if feature.statistics is not None:
        mean, variance = feature.statistics
        return inputs, keras.layers.Normalization(mean=mean, variance=variance, name="rescale")(inputs)
    is_image = feature.dtype == "uint8"
    rescale = keras.layers.Rescaling(*((1 / 127.5, -1.0) if is_image else (1.0, 0.0)), name="rescale")
    return inputs, rescale(inputs)


def conv(filters: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a 3 x 3 convolution with ReLU that keeps height and width, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer=initializer, name=name)


def dense(units: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a dense layer with ReLU, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Dense(units, activation="relu", kernel_initializer=initializer, name=name)


def dropout(rate: float, name: str, seed: int) -> keras.layers.Layer:
    """Create a dropout layer (Srivastava et al., JMLR 2014) with a seed state of its own."""
    return keras.layers.Dropout(rate, seed=layer_seed(seed, name), name=name)


def head(x: keras.KerasTensor, features: dict[str, Any], task: str, seed: int) -> keras.KerasTensor:
    """Add the output layer: a logit for each class or label; of a regression the values in the targets' units.

    Raises:
        Failed: the snapshot has no labels or targets for the task.
    """
    if TASKS[task].target == LABEL:
        return logits(len(classes(features)), seed)(x)
    x = logits(len(targets(features)), seed)(x)
    target = features[TARGET]
    if TASKS[task].in_target_units and "mean" in target:
        standard_deviation, mean = [value**0.5 for value in target["variance"]], target["mean"]
        if len(mean) == 1:
            standard_deviation, mean = standard_deviation[0], mean[0]
        x = keras.layers.Rescaling(standard_deviation, mean, dtype="float32", name="outputs")(x)
    return x


def logits(classes: int, seed: int) -> keras.layers.Layer:
    """Create the output layer, float32 under any dtype policy, Glorot-initialised (Glorot and Bengio, AISTATS 2010)."""
    initializer = keras.initializers.GlorotUniform(layer_seed(seed, "logits"))
    return keras.layers.Dense(classes, kernel_initializer=initializer, dtype="float32", name="logits")
