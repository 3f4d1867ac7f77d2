"""A decoder-only transformer (Vaswani et al., arXiv 1706.03762) that predicts the next token at every position.

Root-mean-square norms before each block (Zhang and Sennrich, arXiv 1910.07467) and on queries and keys (Henry et al.,
arXiv 2010.04245), rotary position embeddings (Su et al., arXiv 2104.09864), SwiGLU (Shazeer, arXiv 2002.05202), tied
input and output embeddings (Press and Wolf, arXiv 1608.05859), no biases.

Built of stock layers and operations on symbolic tensors, so that Keras alone can load it, with free batch size and
length. Without `x[..., None]` and Keras' causal mask, which LiteRT cannot run at a free length.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tasks.config import TransformerModel
from tasks.errors import Failed
from tasks.models.attention import as_float32, attention, feed_forward, norm, normal, positions_of, rotation_of
from tasks.models.experts import balance, experts
from tasks.models.layers import name_operations

TOKENS = "tokens"
EMBEDDING_STDDEV = 0.02
"""Initial standard deviation of the embedding. Inputs are multiplied by `EMBEDDING_SCALE`; logits start near zero."""
EMBEDDING_SCALE = 16.0


def build(config: TransformerModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Build the model: tokens int32 [B, T] to logits float32 [B, T, vocabulary] of each next token.

    Raises:
        Failed: the snapshot has no feature `tokens`.
    """
    if TOKENS not in features:
        rule = "a transformer reads a feature tokens"
        raise Failed("model.kind", f"transformer on {', '.join(features)}", rule, "use snapshot.kind: tokens")
    vocabulary = int(features[TOKENS]["vocabulary"])
    inputs = keras.Input((None,), dtype="int32", name=TOKENS)
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary, config.width, embeddings_initializer=normal(EMBEDDING_STDDEV, "embedding", seed), name="embedding"
    )
    x = ops.cast(embedding(inputs), "float32") * EMBEDDING_SCALE
    positions = positions_of(inputs)
    mask, rotation = later(positions), rotation_of(positions, config)
    of_documents = (
        features[TOKENS].get("packing") == "best_fit" if config.document_mask == "auto" else config.document_mask
    )
    if of_documents:
        mask = ops.logical_or(mask, other_documents(inputs, int(features[TOKENS]["bos"])))
    for block in range(config.layers):
        normed = norm(f"block{block}_attention_norm")(x)
        x = x + as_float32(attention(normed, mask, rotation, config, block, seed, config.kv_heads))
        normed = norm(f"block{block}_mlp_norm")(x)
        x = x + as_float32((experts if config.experts else feed_forward)(normed, config, block, seed))
    x = embedding(norm("final_norm")(x), reverse=True)
    outputs = keras.layers.Activation("linear", dtype="float32", name="logits")(x)
    return name_operations(keras.Model(inputs, outputs, name="transformer"))


def added_loss(config: TransformerModel, model: keras.Model) -> keras.KerasTensor | None:
    """Return what training adds to the loss of each sequence, [B]: with experts, what balances them."""
    return balance(config, model) if config.experts and config.balance_weight else None


def later(positions: keras.KerasTensor) -> keras.KerasTensor:
    """Return the causal mask [1, 1, T, T], true where a key is after the query."""
    return ops.expand_dims(ops.less(ops.expand_dims(positions, 2), ops.expand_dims(positions, 1)), 1)


def other_documents(tokens: keras.KerasTensor, bos: int) -> keras.KerasTensor:
    """Return a mask [B, 1, T, T], true where query and key are of different documents; each begins with BOS."""
    number = ops.cumsum(ops.cast(ops.equal(tokens, bos), "float32"), axis=1)
    return ops.expand_dims(ops.not_equal(ops.expand_dims(number, 2), ops.expand_dims(number, 1)), 1)
