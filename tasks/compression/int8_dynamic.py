"""Dynamic int8 (Jacob et al., arXiv 1712.05877): int8 weights per channel, activations quantised as they pass.

The recipe `dynamic_wi8_afp32` of ai-edge-quantizer: about a quarter of the size, no calibration data.
"""

from __future__ import annotations

from pathlib import Path


def write(float_file: Path, target: Path) -> None:
    """Quantise a float `.tflite` file; input and output stay as they are."""
    from ai_edge_quantizer import quantizer, recipe

    work = quantizer.Quantizer(str(float_file))
    work.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    target.write_bytes(bytes(work.quantize().quantized_model))
