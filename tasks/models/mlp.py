"""A multi-layer perceptron (Rumelhart, Hinton and Williams, Nature 323, 1986) over all inputs of an example.

Numbers and images are scaled and flattened, ids become vectors (entity embeddings: Guo and Berkhahn, arXiv 1604.06737),
and a text is the mean of its tokens' vectors (Iyyer et al., ACL 2015).
"""

from __future__ import annotations

from typing import Any

import keras

from tasks.config.models import MlpModel
from tasks.models.features import model_inputs
from tasks.models.layers import dense, dropout, encoded, head, name_operations


def build(config: MlpModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: inputs [B, ...] of fixed shapes, by name, to logits [B, classes] or outputs [B, targets]."""
    inputs, vectors = {}, []
    for each in model_inputs(features):
        inputs[each.name], vector = encoded(each, config.embedding, seed)
        vectors.append(vector)
    x = keras.layers.Concatenate(name="inputs")(vectors) if len(vectors) > 1 else vectors[0]
    for index, units in enumerate(config.units):
        x = dense(units, f"dense{index}", seed)(x)
        x = dropout(config.dropout, f"dropout{index}", seed)(x)
    given = inputs if len(inputs) > 1 else next(iter(inputs.values()))
    return name_operations(keras.Model(given, head(x, features, config.task, seed), name="mlp"))
