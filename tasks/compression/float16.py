"""Weights as float16, which a runtime computes as float32: half the size, the same speed on a processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.config.methods import Float16

if TYPE_CHECKING:
    from tasks.compression.given import Given

VERSION = 2


def write(config: Float16, given: Given) -> bytes:
    """Convert the float SavedModel anew with weights of float16, tables of embeddings included, and its functions."""
    import tensorflow as tf

    from tasks.exporting.litert import SIGNATURE
    from tasks.exporting.saved_model import functions_in

    keys = [SIGNATURE, *functions_in(given.saved_model)]
    converter = tf.lite.TFLiteConverter.from_saved_model(str(given.saved_model), signature_keys=keys)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    content: bytes = converter.convert()
    return content
