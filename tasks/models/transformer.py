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
from tasks.models.layers import layer_seed, name_operations

TOKENS = "tokens"
EPSILON = 1e-6
EMBEDDING_STDDEV = 0.02
"""Initial standard deviation of the embedding. Inputs are multiplied by `EMBEDDING_SCALE`; logits start near zero."""
EMBEDDING_SCALE = 16.0
MASKED = -1e9


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
        vocabulary, config.width, embeddings_initializer=_normal(EMBEDDING_STDDEV, "embedding", seed), name="embedding"
    )
    x = ops.cast(embedding(inputs), "float32") * EMBEDDING_SCALE
    mask, rotation = mask_and_rotation(inputs, config)
    of_documents = (
        features[TOKENS].get("packing") == "best_fit" if config.document_mask == "auto" else config.document_mask
    )
    if of_documents:
        mask = ops.logical_or(mask, other_documents(inputs, int(features[TOKENS]["bos"])))
    for block in range(config.layers):
        x = x + _as_float32(attention(norm(f"block{block}_attention_norm")(x), mask, rotation, config, block, seed))
        x = x + _as_float32(feed_forward(norm(f"block{block}_mlp_norm")(x), config, block, seed))
    x = embedding(norm("final_norm")(x), reverse=True)
    outputs = keras.layers.Activation("linear", dtype="float32", name="logits")(x)
    return name_operations(keras.Model(inputs, outputs, name="transformer"))


def mask_and_rotation(tokens: keras.KerasTensor, config: TransformerModel) -> tuple[Any, tuple[Any, Any]]:
    """Return the causal mask [1, 1, T, T] (true where a key is after the query), and the rotary embedding's cosines
    and sines [1, 1, T, width / heads / 2].

    Positions are a cumulative sum of ones over the tokens, as a symbolic length has no value.
    """
    ones = ops.max(ops.ones_like(tokens, dtype="float32"), axis=0, keepdims=True)
    positions = ops.cumsum(ones, axis=1) - 1.0
    is_later = ops.less(ops.expand_dims(positions, 2), ops.expand_dims(positions, 1))
    mask = ops.expand_dims(is_later, 1)
    half = config.width // config.heads // 2
    rates = [config.rope_base ** (-index / half) for index in range(half)]
    angles = ops.expand_dims(ops.expand_dims(positions, 2) * ops.reshape(ops.array(rates, "float32"), (1, 1, half)), 1)
    return mask, (ops.cos(angles), ops.sin(angles))


def other_documents(tokens: keras.KerasTensor, bos: int) -> keras.KerasTensor:
    """Return a mask [B, 1, T, T], true where query and key are of different documents; each begins with BOS."""
    number = ops.cumsum(ops.cast(ops.equal(tokens, bos), "float32"), axis=1)
    return ops.expand_dims(ops.not_equal(ops.expand_dims(number, 2), ops.expand_dims(number, 1)), 1)


def attention(
    x: keras.KerasTensor, mask: Any, rotation: tuple[Any, Any], config: TransformerModel, block: int, seed: int
) -> keras.KerasTensor:
    """Add causal multi-head self-attention: [B, T, width] to [B, T, width]."""
    name, size = f"block{block}_attention", config.width // config.heads
    qkv = dense(3 * config.width, config.width, f"{name}_qkv", seed)(x)
    qkv = keras.layers.Reshape((-1, 3 * config.heads, size), name=f"{name}_split")(qkv)
    q, k, v = (ops.transpose(part, (0, 2, 1, 3)) for part in ops.split(qkv, 3, axis=2))
    q = apply_rotary(norm(f"{name}_query_norm")(q), rotation)
    k = apply_rotary(norm(f"{name}_key_norm")(k), rotation)
    # `where` instead of adding a mask: TensorFlow fuses product, scale and sum into a hundred times slower operation
    scores = ops.where(mask, MASKED, _as_float32(ops.matmul(q * size**-0.5, ops.transpose(k, (0, 1, 3, 2)))))
    context = ops.matmul(ops.cast(ops.softmax(scores, axis=-1), v.dtype), v)
    context = ops.transpose(context, (0, 2, 1, 3))
    context = keras.layers.Reshape((-1, config.width), name=f"{name}_join")(context)
    return keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")(context)


def apply_rotary(x: keras.KerasTensor, rotation: tuple[Any, Any]) -> keras.KerasTensor:
    """Apply the rotary position embedding to queries or keys, [B, heads, T, size]."""
    first, second = ops.split(_as_float32(x), 2, axis=-1)
    cosine, sine = rotation
    rotated = ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return ops.cast(rotated, x.dtype)


def feed_forward(x: keras.KerasTensor, config: TransformerModel, block: int, seed: int) -> keras.KerasTensor:
    """Add a SwiGLU feed-forward block: [B, T, width] to [B, T, width]."""
    name = f"block{block}_mlp"
    gate, up = ops.split(dense(2 * config.hidden, config.width, f"{name}_gate_up", seed)(x), 2, axis=-1)
    out = keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")
    return out(ops.silu(gate) * up)


def dense(units: int, width: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a dense layer without bias, initialised to keep the standard deviation of its inputs."""
    return keras.layers.Dense(units, use_bias=False, kernel_initializer=_normal(width**-0.5, name, seed), name=name)


def norm(name: str) -> keras.layers.Layer:
    """Create a root-mean-square norm over the last axis, with a learned scale."""
    return keras.layers.RMSNormalization(epsilon=EPSILON, name=name)


def _as_float32(x: keras.KerasTensor) -> keras.KerasTensor:
    """Cast to float32, which sums and norms use under any dtype policy."""
    return ops.cast(x, "float32")


def _normal(stddev: float, name: str, seed: int) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(0.0, stddev, layer_seed(seed, name))
