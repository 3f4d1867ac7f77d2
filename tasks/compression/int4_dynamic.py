"""Dynamic-range int4 quantisation: int4 weights, a scale for each channel or block; tables of embeddings are int8.

Blocks of weights with a scale of their own lose less (Dettmers et al., arXiv 2110.02861). Only dense layers have them,
those whose inputs divide into blocks; others and convolutions have a scale for each channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.compression.layers import Layer, layers_of
from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.tables import with_int8_tables
from tasks.config.methods import Int4Dynamic
from tasks.errors import Failed

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

    from tasks.compression.given import Given

VERSION = 2


def write(config: Int4Dynamic, given: Given) -> bytes:
    """Quantise the float file.

    Raises:
        Failed: no dense layer divides into blocks.
    """
    content = with_int8_tables(given.litert.read_bytes())
    blocked = [] if config.block is None else divisible(content, config.block)

    def configure(work: Quantizer) -> None:
        from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

        work.add_dynamic_config(*EVERY, num_bits=4)
        for layer in blocked:
            granularity = QuantGranularity[f"BLOCKWISE_{config.block}"]
            dense = TFLOperationName.FULLY_CONNECTED
            work.add_dynamic_config(layer.selector, dense, num_bits=4, granularity=granularity)

    return quantised(content, configure)


def divisible(content: bytes, block: int) -> list[Layer]:
    """Return the dense layers whose inputs divide into blocks; raises `Failed` where there are none."""
    dense = [layer for layer in layers_of(content) if layer.operation == "FULLY_CONNECTED"]
    if chosen := [layer for layer in dense if layer.shape[-1] % block == 0]:
        return chosen
    of = ", ".join(f"{layer.said} {layer.shape[-1]}" for layer in dense) or "no dense layer"
    rule = f"blocks need a dense layer whose inputs divide by {block}, and there are: {of}"
    raise Failed("compress.methods", f"int4_dynamic, block {block}", rule, "use a smaller block, or leave it out")
