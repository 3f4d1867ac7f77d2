"""Dynamic-range int4 quantisation: int4 weights, a scale for each channel or block; tables of embeddings are int8.

Blocks of weights with a scale of their own lose less (Dettmers et al., arXiv 2110.02861). Only dense layers have them;
convolutions have a scale for each channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.compression.methods import Given
from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.tables import with_int8_tables
from tasks.config.methods import Int4Dynamic

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

VERSION = 1


def write(config: Int4Dynamic, given: Given) -> bytes:
    """Quantise the float file."""

    def configure(work: Quantizer) -> None:
        from ai_edge_quantizer.qtyping import QuantGranularity, TFLOperationName

        work.add_dynamic_config(*EVERY, num_bits=4)
        if config.block is not None:
            granularity = QuantGranularity[f"BLOCKWISE_{config.block}"]
            dense = TFLOperationName.FULLY_CONNECTED
            work.add_dynamic_config("", dense, num_bits=4, granularity=granularity)

    return quantised(with_int8_tables(given.litert.read_bytes()), configure)
