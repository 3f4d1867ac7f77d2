"""GPTQ (Frantar et al., arXiv 2210.17323): int4 weights, rounded so that the outputs on examples change least.

By ai-edge-quantizer on the LiteRT file. That of Keras 3.15.1 observes no example, and rounds to the nearest
(docs/decisions.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.compression.methods import CALIBRATED
from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.tables import with_int8_tables
from tasks.config.methods import Gptq

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

    from tasks.compression.given import Given

VERSION = 1


def write(config: Gptq, given: Given) -> bytes:
    """Quantise the float file: dense layers by GPTQ, other layers to the nearest."""

    def configure(work: Quantizer) -> None:
        from ai_edge_quantizer.algorithm_manager import AlgorithmName
        from ai_edge_quantizer.qtyping import TFLOperationName

        work.add_dynamic_config(*EVERY, num_bits=4)
        dense = TFLOperationName.FULLY_CONNECTED
        work.add_dynamic_config("", dense, num_bits=4, algorithm_key=AlgorithmName.GPTQ)

    content = with_int8_tables(given.litert.read_bytes())
    return quantised(content, configure, given.examples(CALIBRATED, config.examples))
