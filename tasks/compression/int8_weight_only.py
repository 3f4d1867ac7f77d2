"""int8 weights, one scale for each output channel, which are computed as float32: a quarter of the size, not faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.compression.quantizing import EVERY, quantised
from tasks.compression.tables import with_int8_tables
from tasks.config.methods import Int8WeightOnly

if TYPE_CHECKING:
    from tasks.compression.given import Given

VERSION = 1


def write(config: Int8WeightOnly, given: Given) -> bytes:
    """Quantise the float file."""
    content = with_int8_tables(given.litert.read_bytes())
    return quantised(content, lambda work: work.add_weight_only_config(*EVERY, num_bits=8))
