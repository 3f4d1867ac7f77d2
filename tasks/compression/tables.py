"""Tables of embeddings of a LiteRT file as int8: ai-edge-quantizer leaves the constant inputs of GATHER float.

They are a third of a small language model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MIN_VALUES = 1024
"""Tables with fewer values stay float."""


def with_int8_tables(content: bytes) -> bytes:
    """Return the `.tflite` model with constant float inputs of GATHER as int8, one scale each, dequantised after it."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    builtin = schema.BuiltinOperator
    changed = False
    made: dict[int, int] = {}  # tables are shared between the subgraphs of several signatures
    for graph in model.subgraphs:
        operators = []
        for operator in graph.operators:
            operators.append(operator)
            code = model.operatorCodes[operator.opcodeIndex]
            if max(code.builtinCode, code.deprecatedBuiltinCode) != builtin.GATHER or operator.builtinOptions.axis:
                continue
            table = graph.tensors[operator.inputs[0]]
            values = _floats(model, table, schema)
            if values is None or values.size < MIN_VALUES:
                continue
            source = table.buffer
            scale = float(np.abs(values).max()) / 127 or 1.0
            table = _tensor(schema, table, scale, schema.TensorType.INT8)
            if source not in made:
                buffer = schema.BufferT()
                buffer.data = np.rint(values / scale).astype(np.int8).ravel().view(np.uint8)
                made[source] = len(model.buffers)
                model.buffers.append(buffer)
            table.buffer = made[source]
            gathered = _tensor(schema, graph.tensors[operator.outputs[0]], scale, schema.TensorType.INT8)
            graph.tensors += [table, gathered]
            dequantize = schema.OperatorT()
            dequantize.opcodeIndex = _opcode(model, schema, builtin.DEQUANTIZE)
            dequantize.inputs, dequantize.outputs = np.array([len(graph.tensors) - 1], np.int32), operator.outputs
            operator.inputs = np.array([len(graph.tensors) - 2, *operator.inputs[1:]], np.int32)
            operator.outputs = dequantize.inputs
            operators.append(dequantize)
            changed = True
        graph.operators = operators
    if not changed:
        return content
    _drop_unused(model)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _floats(model: Any, tensor: Any, schema: Any) -> Any:
    data = model.buffers[tensor.buffer].data
    if tensor.type != schema.TensorType.FLOAT32 or data is None or not len(data):
        return None
    return np.frombuffer(np.asarray(data, np.uint8).tobytes(), np.float32).reshape(tensor.shape)


def _tensor(schema: Any, like: Any, scale: float, kind: int) -> Any:
    """Create a quantised tensor of the shape of `like`: integers times `scale`."""
    tensor = schema.TensorT()
    tensor.shape, tensor.shapeSignature, tensor.type, tensor.buffer = like.shape, like.shapeSignature, kind, 0
    tensor.name = like.name + b"_int8"
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.scale, tensor.quantization.zeroPoint = np.array([scale], np.float32), np.array([0], np.int64)
    return tensor


def _opcode(model: Any, schema: Any, kind: int) -> int:
    """Return the index of an operator's code in the model, which is added where it is missing."""
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == kind:
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = kind, min(kind, 127), 2
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _drop_unused(model: Any) -> None:
    """Empty the buffers that no operator uses any more; their indices stay."""
    used = set()
    for graph in model.subgraphs:
        indices = {int(p) for operator in graph.operators for p in (*operator.inputs, *operator.outputs) if p >= 0}
        indices |= {int(p) for p in (*graph.inputs, *graph.outputs)}
        used |= {graph.tensors[index].buffer for index in indices}
    used |= {entry.buffer for entry in model.metadata or ()}
    for index, buffer in enumerate(model.buffers):
        if index not in used:
            buffer.data = None
