"""A `.tflite` file from anywhere: what is refused before LiteRT reads it."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import Failed

IDENTIFIER = b"TFL3"
"""The file identifier of the format, at byte 4."""

MOST_BYTES = 8 << 30
"""Bytes of all tensors of a file in their written shapes: those of which LiteRT reserves memory when it loads."""
MOST_TENSORS = 1_000_000
"""Tensors and operators of a file."""

FAULTS = (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError)
"""What reading an invalid flatbuffer raises: an offset that leads out of the file, a size that cannot be."""
TRUST = "use an export from a source that you trust"


def check(path: Path) -> None:
    """Raise `Failed` for a file that is no valid model, runs code of its own, or asks for too much memory.

    Every table of the flatbuffer is read, each offset within the file, as LiteRT reads it without a check. Operators
    that are not built in (custom ones, and Flex, which are TensorFlow's) call what is registered in the process.
    """
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        raise Failed(str(path), f"begins with {content[:8]!r}", "a LiteRT file is a flatbuffer TFL3", TRUST)
    try:
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
        _check_model(path, model, len(content), schema)
    except FAULTS as error:
        saw = f"an invalid flatbuffer ({type(error).__name__}: {error})"
        raise Failed(str(path), saw, "every table of a LiteRT file is within it", TRUST) from error


def _check_model(path: Path, model: Any, size: int, schema: Any) -> None:
    builtin = schema.BuiltinOperator
    names = {number: name for name, number in vars(builtin).items() if not name.startswith("_")}
    codes = []
    for code in model.operatorCodes:
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = (code.customCode or b"").decode("utf-8", "replace")
        if custom or number in (builtin.CUSTOM, builtin.DELEGATE) or number not in names:
            saw = f"an operator {custom or names.get(number, number)}"
            raise Failed(str(path), saw, "the operators of a model are those that are built into LiteRT", TRUST)
        codes.append(number)
    counts = [len(graph.tensors) + len(graph.operators) for graph in model.subgraphs]
    if sum(counts) > MOST_TENSORS:
        rule = f"a model has {MOST_TENSORS:,} tensors and operators at most"
        raise Failed(str(path), f"{sum(counts):,} tensors and operators", rule, TRUST)
    total = 0
    for graph in model.subgraphs:
        count = len(graph.tensors)
        for tensor in graph.tensors:
            total += _check_tensor(path, tensor, model.buffers, size, schema)
        for operator in graph.operators:
            _check_indices(path, "operator code", [operator.opcodeIndex], len(codes))
            for side in (operator.inputs, operator.outputs, operator.intermediates):
                _check_indices(path, "tensor", _listed(side), count, optional=True)
        for side in (graph.inputs, graph.outputs):
            _check_indices(path, "tensor", _listed(side), count)
    for signature in model.signatureDefs or ():
        _check_indices(path, "subgraph", [signature.subgraphIndex], len(model.subgraphs))
        tensors = [each.tensorIndex for each in (*(signature.inputs or ()), *(signature.outputs or ()))]
        _check_indices(path, "tensor", tensors, len(model.subgraphs[signature.subgraphIndex].tensors))
    if total > MOST_BYTES:
        rule = f"the tensors of a model have {MOST_BYTES >> 30} GiB at most"
        raise Failed(str(path), f"tensors of {total:,} bytes", rule, TRUST)


def _check_tensor(path: Path, tensor: Any, buffers: list[Any], size: int, schema: Any) -> int:
    """Return the bytes of a tensor; raise `Failed` where its constant values are not that many, or elsewhere."""
    name = (tensor.name or b"").decode("utf-8", "replace")
    _check_indices(path, "buffer", [tensor.buffer], len(buffers))
    shape = _listed(tensor.shape)
    if any(length < 0 for length in shape):
        raise Failed(str(path), f"tensor {name} of shape {shape}", "sizes are not negative", TRUST)
    bits = BITS.get(_type_name(tensor.type, schema))
    needed = 0 if bits is None else -(-math.prod(shape) * bits // 8)
    buffer = buffers[tensor.buffer]
    if buffer.offset > 1:  # of a large file, whose values are behind the flatbuffer
        if buffer.offset + buffer.size > size:
            saw = f"tensor {name} in bytes {buffer.offset:,} to {buffer.offset + buffer.size:,} of {size:,}"
            raise Failed(str(path), saw, "constants are within the file", TRUST)
        held = int(buffer.size)
    else:
        held = 0 if buffer.data is None else len(buffer.data)
    if held and bits is not None and held < needed and tensor.sparsity is None:
        saw = f"tensor {name} of {needed:,} bytes with {held:,}"
        raise Failed(str(path), saw, "a constant has all of its values", TRUST)
    return needed


BITS = {
    **dict.fromkeys(("FLOAT64", "INT64", "UINT64", "COMPLEX64"), 64),
    **dict.fromkeys(("FLOAT32", "INT32", "UINT32"), 32),
    **dict.fromkeys(("FLOAT16", "BFLOAT16", "INT16", "UINT16"), 16),
    **dict.fromkeys(("INT8", "UINT8", "BOOL"), 8),
    "COMPLEX128": 128,
    "INT4": 4,
    "INT2": 2,
}
"""Bits of a value, by the name of the type; of texts and resources there is no size."""


def _type_name(number: int, schema: Any) -> str:
    return next((name for name, value in vars(schema.TensorType).items() if value == number), "")


def _check_indices(path: Path, what: str, indices: list[int], count: int, optional: bool = False) -> None:
    """Raise `Failed` where an index is not of one of `count`; -1 stands for none where there may be none."""
    for index in indices:
        if not (-1 if optional else 0) <= index < count:
            raise Failed(str(path), f"{what} {index} of {count}", "every index is of something in the file", TRUST)


def _listed(vector: Any) -> list[int]:
    return [] if vector is None else [int(value) for value in np.asarray(vector).ravel()]
