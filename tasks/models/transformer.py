"""A decoder-only transformer (Vaswani et al., arXiv 1706.03762) that gives the next token's logits at every place.

Root-mean-square norms before each block (Zhang and Sennrich, arXiv 1910.07467) and on queries and keys (Henry et al.,
arXiv 2010.04245), rotary positions (Su et al., arXiv 2104.09864), SwiGLU (Shazeer, arXiv 2002.05202), one matrix for
the tokens going in and coming out (Press and Wolf, arXiv 1608.05859), no biases.

Stock layers and operations on symbolic tensors only, so that Keras alone loads it; batch and length are free. No
`x[..., None]`, and the causal mask is our own: LiteRT cannot run what Keras makes of them at a free length.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tasks.config import TransformerModel
from tasks.errors import Failed
from tasks.models.layers import layer_seed

TOKENS = "tokens"
EPSILON = 1e-6
EMBEDDED = 0.02
"""Deviation of the embedding at the start; the input is scaled by 16 to be near one, the logits start near zero."""
SCALE = 16.0
NEVER = -1e9


def build(config: TransformerModel, features: dict[str, Any], seed: int) -> keras.Model:
    """Tokens int32 [B, T] to logits float32 [B, T, vocabulary]: what comes after each of them.

    Raises:
        Failed: the snapshot holds no tokens.
    """
    if TOKENS not in features:
        rule = "a transformer reads a feature tokens"
        raise Failed("model.kind", f"transformer on {', '.join(features)}", rule, "use snapshot.kind: tokens")
    vocabulary = int(features[TOKENS]["vocabulary"])
    inputs = keras.Input((None,), dtype="int32", name=TOKENS)
    embedding = keras.layers.ReversibleEmbedding(
        vocabulary, config.width, embeddings_initializer=_normal(EMBEDDED, "embedding", seed), name="embedding"
    )
    x = ops.cast(embedding(inputs), "float32") * SCALE
    mask, rotation = places(inputs, config)
    for block in range(config.layers):
        x = x + _wide(attention(norm(f"block{block}_attention_norm")(x), mask, rotation, config, block, seed))
        x = x + _wide(feed_forward(norm(f"block{block}_mlp_norm")(x), config, block, seed))
    x = embedding(norm("final_norm")(x), reverse=True)
    outputs = keras.layers.Activation("linear", dtype="float32", name="logits")(x)
    return named(keras.Model(inputs, outputs, name="transformer"))


def places(tokens: keras.KerasTensor, config: TransformerModel) -> tuple[Any, tuple[Any, Any]]:
    """Of places 0, 1, ... of a row: whether one comes after another [1, 1, T, T], cosines and sines [1, 1, T, half].

    Counted from the tokens, as a symbolic length is not known: ones, summed up.
    """
    ones = ops.max(ops.ones_like(tokens, dtype="float32"), axis=0, keepdims=True)
    place = ops.cumsum(ones, axis=1) - 1.0
    later = ops.less(ops.expand_dims(place, 2), ops.expand_dims(place, 1))
    mask = ops.expand_dims(later, 1)
    half = config.width // config.heads // 2
    rates = [config.rope_base ** (-index / half) for index in range(half)]
    angles = ops.expand_dims(ops.expand_dims(place, 2) * ops.reshape(ops.array(rates, "float32"), (1, 1, half)), 1)
    return mask, (ops.cos(angles), ops.sin(angles))


def attention(
    x: keras.KerasTensor, mask: Any, rotation: tuple[Any, Any], config: TransformerModel, block: int, seed: int
) -> keras.KerasTensor:
    """Each place looks at itself and at those before it, through `heads` heads."""
    name, size = f"block{block}_attention", config.width // config.heads
    qkv = dense(3 * config.width, config.width, f"{name}_qkv", seed)(x)
    qkv = keras.layers.Reshape((-1, 3 * config.heads, size), name=f"{name}_split")(qkv)
    q, k, v = (ops.transpose(part, (0, 2, 1, 3)) for part in ops.split(qkv, 3, axis=2))
    q = rotated(norm(f"{name}_query_norm")(q), rotation)
    k = rotated(norm(f"{name}_key_norm")(k), rotation)
    # chosen, not added: TensorFlow fuses product, scale and sum into one operation that is a hundred times slower
    scores = ops.where(mask, NEVER, _wide(ops.matmul(q * size**-0.5, ops.transpose(k, (0, 1, 3, 2)))))
    found = ops.matmul(ops.cast(ops.softmax(scores, axis=-1), v.dtype), v)
    found = ops.transpose(found, (0, 2, 1, 3))
    found = keras.layers.Reshape((-1, config.width), name=f"{name}_join")(found)
    return keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")(found)


def rotated(x: keras.KerasTensor, rotation: tuple[Any, Any]) -> keras.KerasTensor:
    """Turn each pair of a head's numbers by an angle that grows with the place: [B, heads, T, size]."""
    first, second = ops.split(_wide(x), 2, axis=-1)
    cosine, sine = rotation
    turned = ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return ops.cast(turned, x.dtype)


def feed_forward(x: keras.KerasTensor, config: TransformerModel, block: int, seed: int) -> keras.KerasTensor:
    """A gate beside each hidden unit."""
    name = f"block{block}_mlp"
    gate, up = ops.split(dense(2 * config.hidden, config.width, f"{name}_gate_up", seed)(x), 2, axis=-1)
    out = keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")
    return out(ops.silu(gate) * up)


def dense(units: int, width: int, name: str, seed: int) -> keras.layers.Layer:
    """A matrix whose outputs have about the deviation of its inputs."""
    return keras.layers.Dense(units, use_bias=False, kernel_initializer=_normal(width**-0.5, name, seed), name=name)


def norm(name: str) -> keras.layers.Layer:
    """Division by the root mean square over the last axis, and a learned scale."""
    return keras.layers.RMSNormalization(epsilon=EPSILON, name=name)


def named(model: keras.Model) -> keras.Model:
    """Number the operations: Keras names them by what the process did before, and `model.keras` holds the names."""
    layers = {layer.name for layer in model.layers}
    loose = [operation for operation in model.operations if operation.name not in layers]
    for number, operation in enumerate(loose):
        operation.name = f"op{number:03d}_{type(operation).__name__.lower()}"
    return model


def _wide(x: keras.KerasTensor) -> keras.KerasTensor:
    """As float32, in which sums and norms stay whatever the precision."""
    return ops.cast(x, "float32")


def _normal(deviation: float, name: str, seed: int) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(0.0, deviation, layer_seed(seed, name))
