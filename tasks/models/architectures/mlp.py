"""Perceptrons over all inputs of an example: one (Rumelhart, Hinton and Williams, Nature 323, 1986), and a recommender.

- Numbers and images are scaled and flattened, ids become vectors (entity embeddings: Guo and Berkhahn, arXiv
  1604.06737), and a text is the mean of its tokens' vectors (Iyyer et al., ACL 2015).
- In a deep learning recommendation model (Naumov et al., arXiv 1906.00091) every id, every text and all numbers
  together become vectors of one size; the top perceptron reads the vector of the numbers and the products of every
  pair. With one column of a user and one of an item it is a two-tower model whose score is corrected by the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from tasks.config.base import LISTED
from tasks.config.task import ExampleTask
from tasks.models.architecture import Dropout, OwnArchitecture, Units
from tasks.models.features import LOGITS, model_inputs
from tasks.models.prunable import Group, Prunable

if TYPE_CHECKING:
    import keras


class MlpModel(OwnArchitecture, place=1):
    """A multi-layer perceptron over all inputs of an example: numbers, ids, images, and texts as bags of tokens."""

    noun: ClassVar[str] = "multi-layer perceptron"
    reads: ClassVar[tuple[str, ...]] = ("image", "table")

    kind: Literal["mlp"] = "mlp"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    units: Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=32)] = (256, 128)
    """Units of each hidden layer."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training."""

    embedding: Units = 16
    """Size of the vector of an id (a category, a token); other inputs have none."""

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: inputs [B, ...] of fixed shapes, by name, to logits [B, classes] or outputs [B, targets]."""
        import keras

        from tasks.models.layers import dense, dropout, encoded, head, name_operations

        inputs, vectors = {}, []
        for each in model_inputs(features):
            inputs[each.name], vector = encoded(each, self.embedding, seed)
            vectors.append(vector)
        x = keras.layers.Concatenate(name="inputs")(vectors) if len(vectors) > 1 else vectors[0]
        for index, units in enumerate(self.units):
            x = dense(units, f"dense{index}", seed)(x)
            x = dropout(self.dropout, f"dropout{index}", seed)(x)
        given = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        return name_operations(keras.Model(given, head(x, features, self.task, seed), name="mlp"))

    def prunable(self) -> Prunable:
        """Return the units of the hidden layers."""
        names = [f"dense{index}" for index in range(len(self.units))]
        groups = [Group(*each) for each in zip(self.units, names, [*names[1:], LOGITS], strict=True)]
        return Prunable(tuple(groups), lambda counts: self.model_copy(update={"units": tuple(counts)}))


Layers = Annotated[tuple[Units, ...], LISTED, Field(min_length=1, max_length=16)]


class DlrmModel(OwnArchitecture, place=6):
    """A recommender over a table: a vector for each id, each text and all numbers, and the products of every pair."""

    noun: ClassVar[str] = "recommender"
    reads: ClassVar[tuple[str, ...]] = ("table",)

    kind: Literal["dlrm"] = "dlrm"
    """The architecture."""

    task: ExampleTask = "classification"
    """Determines the default loss, the metrics, their intervals and the plots."""

    embedding: Units = 16
    """Size of the vectors."""

    bottom: Layers = (64,)
    """Units of each hidden layer of the perceptron over the numbers."""

    top: Layers = (128, 64)
    """Units of each hidden layer of the perceptron over the products."""

    dropout: Dropout = 0.0
    """Share of each hidden layer's outputs dropped while training, of the top."""

    def network(self, features: dict[str, Any], seed: int) -> keras.Model:
        """Build the model: inputs [B, ...] of fixed shapes, by name, to logits [B, classes] or outputs [B, targets]."""
        import keras

        from tasks.models.layers import dense, dropout, embedded, head, input_layer, name_operations

        inputs, vectors, numbers = {}, [], []
        for each in model_inputs(features):
            if each.sizes:
                inputs[each.name], vector = embedded(each, self.embedding, seed)
                vectors.append(vector)
            else:
                inputs[each.name], x = input_layer(each)
                numbers.append(keras.layers.Flatten(name=f"{each.name}_flat")(x))
        bottom = []
        if numbers:
            x = keras.layers.Concatenate(name="numbers")(numbers) if len(numbers) > 1 else numbers[0]
            for index, units in enumerate(self.bottom):
                x = dense(units, f"bottom{index}", seed)(x)
            bottom = [dense(self.embedding, "bottom", seed)(x)]
            vectors.append(keras.layers.Reshape((1, self.embedding), name="bottom_vector")(bottom[0]))
        together = keras.layers.Concatenate(axis=1, name="vectors")(vectors) if len(vectors) > 1 else vectors[0]
        flat = keras.layers.Flatten(name="vectors_flat")(together)
        products = pairs(together)
        x = keras.layers.Concatenate(name="products")([*(bottom or [flat]), *products]) if products else flat
        for index, units in enumerate(self.top):
            x = dropout(self.dropout, f"dropout{index}", seed)(dense(units, f"top{index}", seed)(x))
        given = inputs if len(inputs) > 1 else next(iter(inputs.values()))
        return name_operations(keras.Model(given, head(x, features, self.task, seed), name="dlrm"))


def pairs(vectors: keras.KerasTensor) -> list[keras.KerasTensor]:
    """Return the products of each pair of vectors [B, n, size], as [B, n (n - 1) / 2]; nothing of a single one."""
    from keras import ops

    count = vectors.shape[1]
    if count < 2:
        return []
    products = ops.matmul(vectors, ops.transpose(vectors, (0, 2, 1)))
    above = np.flatnonzero(np.triu(np.ones((count, count)), 1))
    return [ops.take(ops.reshape(products, (-1, count * count)), ops.array(above, "int32"), axis=1)]
