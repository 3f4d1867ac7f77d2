"""The model of this project, and a metric of its own."""

import keras
import numpy as np
from keras import layers, ops

NO_INPUTS = ("label", "target", "weight", "scored")


def make(features, outputs, units=128, dropout=0.3):
    """Return a perceptron over all inputs of an example, to `outputs` logits or values, [batch, outputs].

    `features` are those of the snapshot by name (`millrace show SNAPSHOT` prints them): images as uint8, numbers as
    float32 in their own units, ids of categories and tokens of texts as int32.
    """
    inputs = {
        name: keras.Input(feature["shape"], dtype=feature["dtype"].replace("uint16", "int32"), name=name)
        for name, feature in sorted(features.items())
        if name not in NO_INPUTS
    }
    vectors = [vector(inputs[name], features[name], units) for name in inputs]
    x = layers.Concatenate()(vectors) if len(vectors) > 1 else vectors[0]
    for _ in range(2):
        x = layers.Dense(units, "relu")(x)
        x = layers.Dropout(dropout)(x)
    return keras.Model(inputs if len(inputs) > 1 else next(iter(inputs.values())), layers.Dense(outputs)(x))


def vector(x, feature, units):
    """Return an input as a vector of an example, [batch, n]."""
    if "vocabulary" in feature:  # a text: the mean of its tokens, without padding
        present = ops.cast(ops.not_equal(x, feature.get("padding", -1)), "float32")[..., None]
        tokens = layers.Embedding(feature["vocabulary"], units)(x) * present
        return ops.sum(tokens, axis=1) / (ops.sum(present, axis=1) + 1e-6)
    if "sizes" in feature:  # ids: each column has its own part of one table of vectors
        first = np.cumsum([0, *feature["sizes"][:-1]]).astype("int32")
        return layers.Flatten()(layers.Embedding(sum(feature["sizes"]), 8)(x + first))
    if feature["dtype"] == "uint8":  # an image
        x = layers.Rescaling(1 / 255)(x)
        for channels in (16, 32):
            x = layers.MaxPooling2D(padding="same")(layers.Conv2D(channels, 3, padding="same", activation="relu")(x))
        return layers.GlobalAveragePooling2D()(x)
    if "mean" in feature:
        x = layers.Normalization(mean=feature["mean"], variance=feature["variance"])(x)
    return layers.Flatten()(x)


def wrong(targets, outputs):
    """Return 1 for each wrong class, 0 for each right one, [examples]; the metric is their mean."""
    return np.where(outputs.argmax(-1) == targets, 0.0, 1.0)


def relative_error(targets, outputs):
    """Return the error of each example in parts of its target, [examples]; the metric is their mean."""
    return (np.abs(outputs - targets) / np.maximum(np.abs(targets), 1e-9)).mean(-1)
