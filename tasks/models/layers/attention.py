"""Blocks of attention and feed-forward over tokens or patches, masks of attention, and mixtures of experts.

Built of stock layers and operations on symbolic tensors, so that Keras alone can load them, with free batch size and
length. Without `x[..., None]` and Keras' causal mask, which LiteRT cannot run at a free length.
"""

from __future__ import annotations

from typing import Any, Protocol

import keras
from keras import ops

from tasks.models.decoding import Memory
from tasks.models.features import TOKENS
from tasks.models.layers import layer_seed
from tasks.models.prunable import Attends, head_size

EPSILON = 1e-6
MASKED = -1e9


class Rotates(Attends, Protocol):
    """The config of a model with rotary positions."""

    rope_base: float


class Mixes(Attends, Protocol):
    """The config of a model with experts in place of each feed-forward layer."""

    experts: int
    experts_per_token: int
    balance_weight: float


def positions_of(tokens: keras.KerasTensor) -> keras.KerasTensor:
    """Return the positions 0, 1, ... of tokens [B, T], float32 [1, T]: a cumulative sum, as a symbolic length has no
    value."""
    ones = ops.max(ops.ones_like(tokens, dtype="float32"), axis=0, keepdims=True)
    return ops.cumsum(ones, axis=1) - 1.0


def rotation_of(positions: keras.KerasTensor, config: Rotates) -> tuple[Any, Any]:
    """Return cosines and sines of the rotary position embedding for positions [B, T], [B, 1, T, size of a head / 2]."""
    half = head_size(config) // 2
    rates = [config.rope_base ** (-index / half) for index in range(half)]
    angles = ops.expand_dims(ops.expand_dims(positions, 2) * ops.reshape(ops.array(rates, "float32"), (1, 1, half)), 1)
    return ops.cos(angles), ops.sin(angles)


def attention(
    x: keras.KerasTensor,
    mask: Any | None,
    rotation: tuple[Any, Any] | None,
    config: Attends,
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


def feed_forward(x: keras.KerasTensor, config: Attends, block: int, seed: int) -> keras.KerasTensor:
    """Add a SwiGLU feed-forward block: [B, T, width] to [B, T, width]."""
    name = f"block{block}_mlp"
    gate, up = ops.split(dense(2 * config.hidden, config.width, f"{name}_gate_up", seed)(x), 2, axis=-1)
    out = keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")
    return out(ops.silu(gate) * up)


def experts(x: keras.KerasTensor, config: Mixes, block: int, seed: int) -> keras.KerasTensor:
    """Add a mixture of SwiGLU feed-forward layers: [B, T, width] to [B, T, width].

    A router chooses `experts_per_token` of them for each token (Shazeer et al., arXiv 1701.06538). Their outputs are
    multiplied by the router's probabilities: as they are with one expert (Switch Transformer, Fedus et al., arXiv
    2101.03961), which is how the router learns then, and of several divided by their sum (GShard, Lepikhin et al.,
    arXiv 2006.16668). The router computes in float32.

    The matrices of all experts are side by side in two dense layers, and every token passes through all: an expert that
    was not chosen is multiplied by 0. No token is dropped, the shapes are static and the operations are those that
    every format has; the computation is that of all experts, and only their number of weights is that of a mixture.
    """
    name, count = f"block{block}_experts", config.experts
    router = keras.layers.Dense(
        count,
        use_bias=False,
        kernel_initializer=normal(config.width**-0.5, router_name(block), seed),
        dtype="float32",
        name=router_name(block),
    )
    probabilities = ops.softmax(router(as_float32(x)), axis=-1)
    gates = probabilities * chosen(probabilities, config.experts_per_token)
    if config.experts_per_token > 1:
        gates = gates / ops.sum(gates, axis=-1, keepdims=True)
    gate, up = ops.split(dense(2 * count * config.hidden, config.width, f"{name}_gate_up", seed)(x), 2, axis=-1)
    hidden = keras.layers.Reshape((-1, count, config.hidden), name=f"{name}_split")(ops.silu(gate) * up)
    hidden = hidden * ops.cast(ops.expand_dims(gates, -1), hidden.dtype)
    hidden = keras.layers.Reshape((-1, count * config.hidden), name=f"{name}_join")(hidden)
    return keras.layers.Dense(config.width, use_bias=False, kernel_initializer="zeros", name=f"{name}_out")(hidden)


def balance_loss(config: Mixes, model: keras.Model) -> keras.KerasTensor:
    """Return what is added to the loss of each sequence, float32 [B]: `balance_weight` times the loss of each block.

    The loss of a block is E times the sum over its E experts of the share of the sequence's tokens that chose it and
    its mean probability (Fedus et al., arXiv 2101.03961, equation 4): 1 where all are used alike, E where one is. It is
    that of a sequence (as in DeepSeek-V3, arXiv 2412.19437) and not of a batch, so that a sum over sequences does not
    depend on how they are divided into micro-batches and over devices.
    """
    losses = []
    for block in range(config.layers):
        probabilities = ops.softmax(model.get_layer(router_name(block)).output, axis=-1)
        used = chosen(probabilities, config.experts_per_token) / config.experts_per_token
        shares = ops.mean(used, axis=1) * ops.mean(probabilities, axis=1)
        losses.append(config.experts * ops.sum(shares, axis=-1))
    return config.balance_weight * sum(losses[1:], start=losses[0])


def chosen(probabilities: Any, count: int) -> Any:
    """Return 1 for the `count` highest of probabilities [B, T, E], else 0, float32; of equal ones for the first."""
    _, which = ops.top_k(probabilities, count)
    return ops.sum(ops.one_hot(which, probabilities.shape[-1], dtype="float32"), axis=-2)


def router_name(block: int) -> str:
    """Return the name of the layer that has a logit for each expert, [B, T, E]."""
    return f"block{block}_router"


def later(queries: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
    """Return the causal mask [B, 1, T, keys] of positions [B, T] and [B, keys], true where a key is after the query."""
    return ops.expand_dims(ops.less(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1)), 1)


def document_number(tokens: keras.KerasTensor, features: dict[str, Any]) -> keras.KerasTensor:
    """Return the number of each token's document in its row, float32 [B, T]; each begins with BOS."""
    return ops.cumsum(ops.cast(ops.equal(tokens, int(features[TOKENS]["bos"])), "float32"), axis=1)


def other_documents(queries: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
    """Return a mask [B, 1, T, keys] of documents' numbers, true where query and key are of different ones."""
    return ops.expand_dims(ops.not_equal(ops.expand_dims(queries, 2), ops.expand_dims(keys, 1)), 1)


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
