"""A mixture of experts in place of a feed-forward layer, and the loss that balances it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tasks.config.models import TransformerModel
from tasks.models.attention import as_float32, dense, normal


def experts(x: keras.KerasTensor, config: TransformerModel, block: int, seed: int) -> keras.KerasTensor:
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


def balance(config: TransformerModel, model: keras.Model) -> keras.KerasTensor:
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
