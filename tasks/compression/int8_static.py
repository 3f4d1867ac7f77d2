"""Static int8 quantisation (Jacob et al., arXiv 1712.05877): int8 weights and activations, of observed ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.compression.methods import CALIBRATED
from tasks.compression.quantizing import EVERY, quantised
from tasks.config.methods import Int8Static

if TYPE_CHECKING:
    from tasks.compression.given import Given

VERSION = 1


def write(config: Int8Static, given: Given) -> bytes:
    """Quantise the float file, with ranges over examples of the train split; inputs and outputs stay as they are."""
    return quantised(
        given.litert.read_bytes(),
        lambda work: work.add_static_config(*EVERY, activation_num_bits=8, weight_num_bits=8),
        given.examples(CALIBRATED, config.examples),
    )
