"""Damaged LiteRT files."""

from __future__ import annotations

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def without_largest_weights(content: bytes) -> bytes:
    """Return a LiteRT file whose largest weights are 0."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    largest = max(model.buffers, key=lambda buffer: 0 if buffer.data is None else len(buffer.data))
    largest.data = np.zeros_like(largest.data)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
