"""Keras layers with a name, initialised by a seed that depends on the name and not on the order of creation."""

from __future__ import annotations

import hashlib
from typing import Any

import keras
from keras import ops

from tasks.config.task import LABEL, TARGET, TASKS
from tasks.models.features import LOGITS, Input, classes, targets
from tasks.models.outputs import further_outputs, together

EMBEDDING_STDDEV = 0.05
"""Initial standard deviation of the vectors of ids."""
PADDING = 0
"""The id of positions after the end of a text."""


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
        return inputs, keras.layers.Normalization(mean=mean, variance=variance, name=f"{feature.name}_rescale")(inputs)
    is_image = feature.dtype == "uint8"
    rescale = keras.layers.Rescaling(*((1 / 127.5, -1.0) if is_image else (1.0, 0.0)), name=f"{feature.name}_rescale")
    return inputs, rescale(inputs)


def encoded(feature: Input, embedding: int, seed: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Create an input [B, *shape]; return it, and its values as a vector [B, n].

    Ids become vectors of size `embedding`, and of a text (padded with 0) the mean of its tokens' vectors.
    """
    if not feature.sizes:
        inputs, x = input_layer(feature)
        return inputs, keras.layers.Flatten(name=f"{feature.name}_flat")(x)
    inputs, vectors = embedded(feature, embedding, seed)
    return inputs, keras.layers.Flatten(name=f"{feature.name}_flat")(vectors)


def embedded(feature: Input, embedding: int, seed: int) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Create an input of ids; return it, and their vectors [B, n, embedding]; of a text one, the mean of its tokens."""
    name = feature.name
    inputs = keras.Input((None,) if feature.padded else feature.shape, dtype=feature.dtype, name=name)
    initializer = keras.initializers.RandomNormal(stddev=EMBEDDING_STDDEV, seed=layer_seed(seed, f"{name}_embedding"))
    vectors = keras.layers.Embedding(
        sum(feature.sizes), embedding, embeddings_initializer=initializer, name=f"{name}_embedding"
    )
    if not feature.padded:  # ids of columns, which share a table one after another
        offsets = [-sum(feature.sizes[:column]) for column in range(len(feature.sizes))]
        # Subtracted: Keras makes a sum with a vector a BiasAdd, which LiteRT does not have for integers.
        rows = ops.subtract(inputs, ops.array(offsets, "int32"))
        return inputs, vectors(rows)
    present = ops.expand_dims(ops.cast(ops.not_equal(inputs, PADDING), "float32"), -1)
    total = ops.sum(ops.cast(vectors(inputs), "float32") * present, axis=1, keepdims=True)
    return inputs, total / ops.maximum(ops.sum(present, axis=1, keepdims=True), 1.0)


def conv_plain(filters: int, side: int, stride: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a convolution without bias and activation, as a normalisation follows, He-initialised."""
    start = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv2D(
        filters, side, stride, padding="same", use_bias=False, kernel_initializer=start, name=name
    )


def conv(filters: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a 3 x 3 convolution with ReLU that keeps height and width, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_initializer=initializer, name=name)


def conv1d(filters: int, window: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a convolution over time with ReLU that keeps the steps, He-initialised (arXiv 1502.01852)."""
    start = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Conv1D(filters, window, padding="same", activation="relu", kernel_initializer=start, name=name)


def dense(units: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a dense layer with ReLU, He-initialised (arXiv 1502.01852)."""
    initializer = keras.initializers.HeNormal(layer_seed(seed, name))
    return keras.layers.Dense(units, activation="relu", kernel_initializer=initializer, name=name)


def dropout(rate: float, name: str, seed: int) -> keras.layers.Layer:
    """Create a dropout layer (Srivastava et al., JMLR 2014) with a seed state of its own."""
    return keras.layers.Dropout(rate, seed=layer_seed(seed, name), name=name)


def group_normalised(x: keras.KerasTensor, groups: int, name: str) -> keras.KerasTensor:
    """Normalise groups of channels, then apply ReLU."""
    normed = keras.layers.GroupNormalization(groups, name=f"{name}_norm")(x)
    return keras.layers.Activation("relu", name=f"{name}_relu")(normed)


def head(x: keras.KerasTensor, features: dict[str, Any], task: str, seed: int) -> keras.KerasTensor:
    """Add the output layer: a logit for each class or label; of a regression the values in the targets' units. Further
    outputs have a layer each, beside it.

    Raises:
        Failed: the snapshot has no labels or targets for the task.
    """
    further = [output(x, each.alone, each.task, seed, f"{each.array}_") for each in further_outputs(features)]
    return together(output(x, features, task, seed), further)


def output(x: keras.KerasTensor, features: dict[str, Any], task: str, seed: int, prefix: str = "") -> keras.KerasTensor:
    """Add one output; `prefix` begins the names of its layers."""
    if TASKS[task].target == LABEL:
        return logits(len(classes(features)), seed, prefix)(x)
    x = logits(len(targets(features)), seed, prefix)(x)
    target = features[TARGET]
    if TASKS[task].in_target_units and "mean" in target:
        standard_deviation, mean = [value**0.5 for value in target["variance"]], target["mean"]
        if len(mean) == 1:
            standard_deviation, mean = standard_deviation[0], mean[0]
        x = keras.layers.Rescaling(standard_deviation, mean, dtype="float32", name=f"{prefix}outputs")(x)
    return x


def logits(classes: int, seed: int, prefix: str = "") -> keras.layers.Layer:
    """Create an output layer, float32 under any dtype policy, Glorot-initialised (Glorot and Bengio, AISTATS 2010)."""
    name = f"{prefix}{LOGITS}"
    initializer = keras.initializers.GlorotUniform(layer_seed(seed, name))
    return keras.layers.Dense(classes, kernel_initializer=initializer, dtype="float32", name=name)


def initialise(model: keras.Model, name: str, seed: int) -> None:
    """Begin the kernels of dense and convolutional layers anew, by the initializer that Keras has under a name.

    Output layers, and kernels that begin at 0, stay as they are.
    """
    for layer in model._flatten_layers():
        if not isinstance(layer, keras.layers.Dense | keras.layers.Conv1D | keras.layers.Conv2D):
            continue
        if layer.name.endswith(LOGITS) or isinstance(layer.kernel_initializer, keras.initializers.Zeros):
            continue
        initializer = keras.initializers.get({"class_name": name, "config": {"seed": layer_seed(seed, layer.name)}})
        layer.kernel.assign(initializer(layer.kernel.shape))


def count_weights(model: keras.Model) -> int:
    """Return the number of weights of a model, without those of layers that only a training has
    (`only_in_training`)."""
    added = [layer for layer in model._flatten_layers() if getattr(layer, "only_in_training", False)]
    return int(model.count_params()) - sum(int(layer.count_params()) for layer in added)


def name_operations(model: keras.Model) -> keras.Model:
    """Rename the operations by their order: Keras numbers them by process, and `model.keras` contains the names."""
    layers = {layer.name for layer in model.layers}
    unnamed = [operation for operation in model.operations if operation.name not in layers]
    for number, operation in enumerate(unnamed):
        operation.name = f"op{number:03d}_{type(operation).__name__.lower()}"
    return model
