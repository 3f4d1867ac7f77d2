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

from tasks.config.models import TransformerModel
from tasks.errors import Failed
from tasks.models.attention import (
    as_float32,
    attention,
    feed_forward,
    head_size,
    norm,
    normal,
    positions_of,
    rotation_of,
)
from tasks.models.decoding import (
    DECODE,
    DOCUMENTS,
    KEYS,
    LOGITS,
    POSITION,
    PREFILL,
    VALUES,
    Function,
    Memory,
    function_of,
)
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
    inputs = keras.Input((None,), dtype="int32", name=TOKENS)
    positions = positions_of(inputs)
    mask = later(positions, positions)
    if of_documents(config, features):
        number = document_number(inputs, features)
        mask = ops.logical_or(mask, other_documents(number, number))
    outputs = logits_of(inputs, positions, mask, config, features, seed)
    return name_operations(keras.Model(inputs, outputs, name="transformer"))


def logits_of(
    tokens: keras.KerasTensor,
    positions: keras.KerasTensor,
    mask: keras.KerasTensor,
    config: TransformerModel,
    features: dict[str, Any],
    seed: int,
    memory: Memory | None = None,
) -> keras.KerasTensor:
    """Add all layers: tokens [B, T] at positions [1 or B, T] to logits float32 [B, T, vocabulary].

    Args:
        mask: true where a query does not attend to a key, [1 or B, 1, T, keys].
        memory: takes the keys and values of each block, and returns those that are attended to.
    """
    vocabulary = int(features[TOKENS]["vocabulary"])
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary, config.width, embeddings_initializer=normal(EMBEDDING_STDDEV, "embedding", seed), name="embedding"
    )
    x = ops.cast(embedding(tokens), "float32") * EMBEDDING_SCALE
    rotation = rotation_of(positions, config)
    for block in range(config.layers):
        normed = norm(f"block{block}_attention_norm")(x)
        x = x + as_float32(attention(normed, mask, rotation, config, block, seed, config.kv_heads, memory))
        normed = norm(f"block{block}_mlp_norm")(x)
        x = x + as_float32((experts if config.experts else feed_forward)(normed, config, block, seed))
    x = embedding(norm("final_norm")(x), reverse=True)
    return keras.layers.Activation("linear", dtype="float32", name="logits")(x)


def functions(config: TransformerModel, features: dict[str, Any], model: keras.Model) -> list[Function]:
    """Return generation with a cache, as functions over the variables of the model.

    `prefill` takes tokens [B, T] and returns logits [B, T, vocabulary] and the cache: keys and values, [B, layers,
    kv_heads, T, size], and with a document mask the number of each token's document, float32 [B, T]. `decode` takes a
    token [B, 1], its position [B] and the cache of any capacity [.., C, ..], and returns logits [B, 1, vocabulary] and
    the cache with the token at its position; what is behind that is not read, so that rows may differ in length.
    """
    of_document, heads = of_documents(config, features), config.kv_heads or config.heads
    tokens = keras.Input((None,), dtype="int32", name=TOKENS)
    positions, memory, cache = positions_of(tokens), Memory(), {}
    mask = later(positions, positions)
    if of_document:
        number = document_number(tokens, features)
        mask, cache = ops.logical_or(mask, other_documents(number, number)), {DOCUMENTS: number}
    logits = logits_of(tokens, positions, mask, config, features, 0, memory)
    prefill = function_of(PREFILL, [tokens], {LOGITS: logits, **memory.tensors, **cache}, model)

    token = keras.Input((1,), dtype="int32", name=TOKENS)
    position = keras.Input((), dtype="int32", name=POSITION)
    keys, values = (keras.Input((config.layers, heads, None, head_size(config)), name=name) for name in (KEYS, VALUES))
    inputs, cache = [token, position, keys, values], {}
    past_keys, past_values = ops.unstack(keys, config.layers, axis=1), ops.unstack(values, config.layers, axis=1)
    positions = ops.cast(ops.expand_dims(position, 1), "float32")
    places = positions_of(ops.max(past_keys[0], axis=(1, 3)))
    here, mask = ops.equal(places, positions), later(positions, places)
    if of_document:
        before = keras.Input((None,), name=DOCUMENTS)
        last = ops.sum(ops.where(ops.equal(places, positions - 1.0), before, 0.0), axis=1, keepdims=True)
        number = last + document_number(token, features)
        cache = {DOCUMENTS: ops.where(here, number, before)}
        mask = ops.logical_or(mask, other_documents(number, cache[DOCUMENTS]))
        inputs.append(before)
    memory = Memory((past_keys, past_values, ops.expand_dims(ops.expand_dims(here, 1), 3)))
    logits = logits_of(token, positions, mask, config, features, 0, memory)
    return [prefill, function_of(DECODE, inputs, {LOGITS: logits, **memory.tensors, **cache}, model)]


def added_loss(config: TransformerModel, model: keras.Model) -> keras.KerasTensor | None:
    """Return what training adds to the loss of each sequence, [B]: with experts, what balances them."""
    return balance(config, model) if config.experts and config.balance_weight else None


def of_documents(config: TransformerModel, features: dict[str, Any]) -> bool:
    """Return whether attention stays within a document."""
    packed: bool = features[TOKENS].get("packing") == "best_fit"
    return packed if config.document_mask == "auto" else config.document_mask


def later(queries: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
    """Return the causal mask [B, 1, T, keys] of positions [B, T] and [B, keys], true where a key is after the query."""
    return ops.expand_dims(ops.less(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1)), 1)


def document_number(tokens: keras.KerasTensor, features: dict[str, Any]) -> keras.KerasTensor:
    """Return the number of each token's document in its row, float32 [B, T]; each begins with BOS."""
    return ops.cumsum(ops.cast(ops.equal(tokens, int(features[TOKENS]["bos"])), "float32"), axis=1)


def other_documents(queries: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
    """Return a mask [B, 1, T, keys] of documents' numbers, true where query and key are of different ones."""
    return ops.expand_dims(ops.not_equal(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1)), 1)
