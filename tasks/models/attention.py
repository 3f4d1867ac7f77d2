"""Blocks of attention and feed-forward over tokens, for the transformer and the encoder.

Built of stock layers and operations on symbolic tensors, so that Keras alone can load them, with free batch size and
length. Without `x[..., None]` and Keras' causal mask, which LiteRT cannot run at a free length.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tasks.config.models import EncoderModel, TransformerModel, ViTModel
from tasks.models.decoding import Memory
from tasks.models.layers import layer_seed

Rotary = EncoderModel | TransformerModel
Blocks = Rotary | ViTModel
EPSILON = 1e-6
MASKED = -1e9


def positions_of(tokens: keras.KerasTensor) -> keras.KerasTensor:
    """Return the positions 0, 1, ... of tokens [B, T], float32 [1, T]: a cumulative sum, as a symbolic length has no
    value."""
    ones = ops.max(ops.ones_like(tokens, dtype="float32"), axis=0, keepdims=True)
    return ops.cumsum(ones, axis=1) - 1.0


def head_size(config: Blocks) -> int:
    """Return the size of an attention head."""
    return config.head_dim or config.width // config.heads


def rotation_of(positions: keras.KerasTensor, config: Rotary) -> tuple[Any, Any]:
    """Return cosines and sines of the rotary position embedding for positions [B, T], [B, 1, T, size of a head / 2]."""
    half = head_size(config) // 2
    rates = [config.rope_base ** (-index / half) for index in range(half)]
    angles = ops.expand_dims(ops.expand_dims(positions, 2) * ops.reshape(ops.array(rates, "float32"), (1, 1, half)), 1)
    return ops.cos(angles), ops.sin(angles)


def attention(
    x: keras.KerasTensor,
    mask: Any | None,
    rotation: tuple[Any, Any] | None,
    config: Blocks,
    block: int,
    seed: int,
    kv_heads: int | None = None,
    memory: Memory | None = None,
) -> keras.KerasTensor:
    """Add multi-head self-attention: [B, T, width] to [B, T, width].

    Args:
        mask: true where a query [.., T, 1] does not attend to a key [.., 1, T], of a shape that broadcasts to
            [B, heads, T, T]; None: all attend to all.
        rotation: rotary positions (`rotation_of`); None: the inputs have positions of their own.
        kv_heads: heads of keys and values, each shared by several queries (Ainslie et al., arXiv 2305.13245).
        memory: takes the keys and values, [B, kv_heads, T, size], and returns those that are attended to; None: they
            are these.
    """
    name, size, shared = f"block{block}_attention", head_size(config), kv_heads or config.heads
    heads = config.heads + 2 * shared
    qkv = dense(heads * size, config.width, f"{name}_qkv", seed)(x)
    qkv = keras.layers.Reshape((-1, heads, size), name=f"{name}_split")(qkv)
    ends = 3 if shared == config.heads else (config.heads, config.heads + shared)
    q, k, v = (ops.transpose(part, (0, 2, 1, 3)) for part in ops.split(qkv, ends, axis=2))
    q, k = norm(f"{name}_query_norm")(q), norm(f"{name}_key_norm")(k)
    if rotation is not None:
        q, k = apply_rotary(q, rotation), apply_rotary(k, rotation)
    if memory is not None:
        k, v = memory(k, v)
    if shared != config.heads:
        k, v = (ops.repeat(each, config.heads // shared, axis=1) for each in (k, v))
    scores = as_float32(ops.matmul(q * size**-0.5, ops.transpose(k, (0, 1, 3, 2))))
    if mask is not None:
        # `where` instead of adding a mask: TensorFlow fuses product, scale and sum into an operation a hundred times
        # slower
        scores = ops.where(mask, MASKED, scores)
    context = ops.matmul(ops.cast(ops.softmax(scores, axis=-1), v.dtype), v)
    context = ops.transpose(context, (0, 2, 1, 3))
    context = keras.layers.Reshape((-1, config.heads * size), name=f"{name}_join")(context)
    return keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")(context)


def apply_rotary(x: keras.KerasTensor, rotation: tuple[Any, Any]) -> keras.KerasTensor:
    """Apply the rotary position embedding to queries or keys, [B, heads, T, size]."""
    first, second = ops.split(as_float32(x), 2, axis=-1)
    cosine, sine = rotation
    rotated = ops.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
    return ops.cast(rotated, x.dtype)


def feed_forward(x: keras.KerasTensor, config: Blocks, block: int, seed: int) -> keras.KerasTensor:
    """Add a SwiGLU feed-forward block: [B, T, width] to [B, T, width]."""
    name = f"block{block}_mlp"
    gate, up = ops.split(dense(2 * config.hidden, config.width, f"{name}_gate_up", seed)(x), 2, axis=-1)
    out = keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")
    return out(ops.silu(gate) * up)


def dense(units: int, width: int, name: str, seed: int) -> keras.layers.Layer:
    """Create a dense layer without bias, initialised to keep the standard deviation of its inputs."""
    return keras.layers.Dense(units, use_bias=False, kernel_initializer=normal(width**-0.5, name, seed), name=name)


def norm(name: str) -> keras.layers.Layer:
    """Create a root-mean-square norm over the last axis, with a learned scale."""
    return keras.layers.RMSNormalization(epsilon=EPSILON, name=name)


def as_float32(x: keras.KerasTensor) -> keras.KerasTensor:
    """Cast to float32, which sums and norms use under any dtype policy."""
    return ops.cast(x, "float32")


def normal(stddev: float, name: str, seed: int) -> keras.initializers.Initializer:
    """Return an initializer of normal numbers, seeded by a layer's name."""
    return keras.initializers.RandomNormal(0.0, stddev, layer_seed(seed, name))
