"""A multi-layer perceptron (Rumelhart, Hinton and Williams, Nature 323, 1986) over all inputs of an example.

Numbers and images are scaled and flattened, ids become vectors (entity embeddings: Guo and Berkhahn, arXiv 1604.06737),
and a text is the mean of its tokens' vectors (Iyyer et al., ACL 2015).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

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
