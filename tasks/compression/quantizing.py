"""Quantisation of LiteRT files by ai-edge-quantizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tasks.models.features import Arrays

if TYPE_CHECKING:
    from ai_edge_quantizer.quantizer import Quantizer

SIGNATURE = "serving_default"


def quantised(content: bytes, configure: Callable[[Quantizer], None], examples: Iterable[Arrays] = ()) -> bytes:
    """Return a float `.tflite` file quantised; inputs and outputs keep their dtypes.

    Args:
        configure: adds the recipe: which operations are quantised, and how.
        examples: batches of inputs by name, on which activations are observed where the recipe needs it.
    """
    from ai_edge_quantizer.quantizer import Quantizer

    work = Quantizer(bytearray(content))
    configure(work)
    observed = work.calibrate({SIGNATURE: examples}, num_threads=1) if work.need_calibration else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Input model is already partially quantized")
        return bytes(work.quantize(observed).quantized_model)
