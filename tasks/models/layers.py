"""Keras layers as our architectures use them: named, and seeded by that name, so that order does not matter."""

from __future__ import annotations

import hashlib
from typing import Any

import keras

from tasks.models.features import TARGET, Input, classes, targets


def layer_seed(seed: int, name: str) -> int:
    """An independent 31-bit seed for each layer of each model seed."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest(), "little") >> 1


def entry(source: Input) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """The input [B, *shape] as the snapshot stores it, and the same as float32; uint8 lies in [-1, 1] then, and
    numbers whose mean and variance the snapshot knows are standardised."""
    inputs = keras.Input(source.shape, dtype=source.dtype, name=source.name)
    if source.statistics is not None:
        mean, variance = source.statistics
        return inputs, keras.layers.Normalization(mean=mean, variance=variance, name="rescale")(inputs)
    scaled = source.dtype == "uint8"
    rescale = keras.layers.Rescaling(*((1 / 127.5, -1.0) if scaled else (1.0, 0.0)), name="rescale")
    return inputs, rescale(inputs)


def conv(filters: int, name: str, seed: int) -> keras.layers.Layer:
    """3 x 3 convolution of the same size and relu, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer=initializer, name=name)


def dense(units: int, name: str, seed: int) -> keras.layers.Layer:
    """Dense layer and relu, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Dense(units, activation="relu", kernel_initializer=initializer, name=name)


def dropout(share: float, name: str, seed: int) -> keras.layers.Layer:
    """Dropout (Srivastava et al., JMLR 2014) with a state of its own; passes everything when not training."""
    return keras.layers.Dropout(share, seed=layer_seed(seed, name), name=name)


def head(x: keras.KerasTensor, features: dict[str, Any], task: str, seed: int) -> keras.KerasTensor:
    """The outputs: a logit for each class or label; of a regression the numbers as they were given.

    Raises:
        Failed: the snapshot holds no targets of that task.
    """
    if task == "classification":
        return logits(len(classes(features)), seed)(x)
    x = logits(len(targets(features)), seed)(x)
    target = features[TARGET]
    if task == "regression" and "mean" in target:
        deviation, mean = [value**0.5 for value in target["variance"]], target["mean"]
        if len(mean) == 1:
            deviation, mean = deviation[0], mean[0]
        x = keras.layers.Rescaling(deviation, mean, dtype="float32", name="outputs")(x)
    return x


def logits(classes: int, seed: int) -> keras.layers.Layer:
    """The head: float32 whatever the policy, Glorot-initialised (Glorot and Bengio, AISTATS 2010)."""
    initializer = keras.initializers.GlorotUniform(layer_seed(seed, "logits"))
    return keras.layers.Dense(classes, kernel_initializer=initializer, dtype="float32", name="logits")
