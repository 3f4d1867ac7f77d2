"""A bidirectional transformer encoder of a text (BERT: Devlin et al., arXiv 1810.04805), with the blocks of ModernBERT.

Root-mean-square norms before each block, rotary positions, gated feed-forward, no biases (Warner et al., arXiv
2412.13663); dropout after each block and the embedding. Texts have any length: padding is neither attended to nor part
of the mean over the tokens that the head reads.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tasks.config.models import EncoderModel
from tasks.config.task import TASKS
from tasks.errors import Failed
from tasks.models.attention import as_float32, attention, feed_forward, norm, normal, positions_of, rotation_of
from tasks.models.features import single_input
from tasks.models.layers import PADDING, dropout, head, name_operations

EMBEDDING_STDDEV = 1.0
"""Initial standard deviation of the embedding, whose values are the sum to which the blocks add."""


def build(config: EncoderModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: tokens [B, T] of any length to logits [B, classes] or outputs [B, targets]; of tagging to logits
    [B, T, classes], which are those of a constant at padding.

    Raises:
        Failed: the snapshot has another input than one text of tokens.
    """
    feature = single_input(features)
    if not feature.padded:
        rule = "an encoder reads one text, as tokens or ids of words"
        raise Failed("model.kind", f"encoder on {feature.name}", rule, "give the column the transform tokens")
    inputs = keras.Input((None,), dtype=feature.dtype, name=feature.name)
    (vocabulary,) = feature.sizes
    initializer = normal(EMBEDDING_STDDEV, "embedding", seed)
    embedding = keras.layers.Embedding(vocabulary, config.width, embeddings_initializer=initializer, name="embedding")
    x = dropout(config.dropout, "embedding_dropout", seed)(as_float32(embedding(inputs)))
    is_padding = ops.equal(inputs, PADDING)
    mask = ops.expand_dims(ops.expand_dims(is_padding, 1), 1)
    rotation = rotation_of(positions_of(inputs), config)
    for block in range(config.layers):
        attended = attention(norm(f"block{block}_attention_norm")(x), mask, rotation, config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_attention_dropout", seed)(attended))
        mapped = feed_forward(norm(f"block{block}_mlp_norm")(x), config, block, seed)
        x = x + as_float32(dropout(config.dropout, f"block{block}_mlp_dropout", seed)(mapped))
    present = ops.expand_dims(ops.cast(ops.logical_not(is_padding), "float32"), -1)
    x = as_float32(norm("final_norm")(x)) * present
    if not TASKS[config.task].of_tokens:
        x = ops.sum(x, axis=1) / ops.maximum(ops.sum(present, axis=1), 1.0)
    return name_operations(keras.Model(inputs, head(x, features, config.task, seed), name="encoder"))
