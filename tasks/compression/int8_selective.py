"""int8 weights but for the layers that lose most by it (sensitivity of layers: Dong et al., HAWQ, arXiv 1905.03696).

Each layer is quantised alone, and the error of the outputs on validation examples is its sensitivity. Of the most
sensitive layers as few as suffice stay float: until the loss of the primary metric is within the limit there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from tasks.compression.layers import Layer, layers_of
from tasks.compression.methods import CHOSEN
from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.tables import with_int8_tables
from tasks.config.methods import Int8Selective
from tasks.exporting.litert import LiteRT

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

    from tasks.compression.given import Given

VERSION = 2

log = logging.getLogger(__name__)


def write(config: Int8Selective, given: Given) -> bytes:
    """Quantise the float file but for the layers that need to be float."""
    content = with_int8_tables(given.litert.read_bytes())
    layers = layers_of(content)
    batches = list(given.examples(CHOSEN, config.examples))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"

        def opened(but: Sequence[Layer]) -> LiteRT:
            path.write_bytes(int8(content, but))
            return LiteRT(path, 1)

        path.write_bytes(content)
        run = LiteRT(path, 1)
        expected = [run(batch) for batch in batches]
        errors = {}
        for layer in layers:
            run = opened([other for other in layers if other is not layer])
            errors[layer] = float(np.mean([np.mean((run(b) - e) ** 2) for b, e in zip(batches, expected, strict=True)]))
        ranked = sorted(layers, key=lambda layer: -errors[layer])
        limit = config.max_loss if config.max_loss is not None else given.limit(CHOSEN) / 2
        kept = fewest(len(ranked), lambda count: given.lost(CHOSEN, opened(ranked[:count])) <= limit)
    floats = ranked[:kept]
    log.info("%d of %d layers stay float: %s", kept, len(layers), ", ".join(each.said for each in floats) or "none")
    return int8(content, floats)


def int8(content: bytes, but: Sequence[Layer]) -> bytes:
    """Return a float `.tflite` file with int8 weights in all layers but some."""

    def configure(work: Quantizer) -> None:
        from ai_edge_quantizer.algorithm_manager import AlgorithmName
        from ai_edge_quantizer.qtyping import TFLOperationName

        work.add_dynamic_config(*EVERY, num_bits=8)
        for layer in but:
            work.update_quantization_recipe(
                layer.selector, TFLOperationName.ALL_SUPPORTED, algorithm_key=AlgorithmName.NO_QUANTIZE
            )

    return quantised(content, configure)


def fewest(most: int, suffices: Callable[[int], bool]) -> int:
    """Return the smallest number from 0 to `most` that suffices, as more always do; `most` itself is not tried."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return high
