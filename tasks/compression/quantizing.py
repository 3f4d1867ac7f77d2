"""Quantisation of LiteRT files by ai-edge-quantizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tasks.exporting.litert import SIGNATURE
from tasks.models.features import Arrays

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

EVERY = (".*", "*")
"""Selects all operations that ai-edge-quantizer supports."""


def quantised(content: bytes, configure: Callable[[Quantizer], None], examples: Iterable[Arrays] = ()) -> bytes:
    """Return a float `.tflite` file quantised; inputs and outputs keep their dtypes.

    Args:
        configure: adds the recipe: which operations are quantised, and how.
        examples: batches of inputs by name, on which activations are observed where the recipe needs it.
    """
    from ai_edge_quantizer.algorithm_manager import AlgorithmName
    from ai_edge_quantizer.qtyping import TFLOperationName
    from ai_edge_quantizer.quantizer import Quantizer

    work = Quantizer(bytearray(content))
    configure(work)
    for end in (TFLOperationName.INPUT, TFLOperationName.OUTPUT):
        work.update_quantization_recipe("", end, algorithm_key=AlgorithmName.NO_QUANTIZE)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Input model is already partially quantized")
        warnings.filterwarnings("ignore", message="Warning: Enabling `experimental_preserve_all_tensors`")
        observed = work.calibrate({SIGNATURE: list(examples)}, num_threads=1) if work.need_calibration else None
        return bytes(work.quantize(observed).quantized_model)
