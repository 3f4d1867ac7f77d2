"""LiteRT files: their layers, and their tables of embeddings as int8.

ai-edge-quantizer leaves the constant inputs of GATHER float: tables that are a third of a small language model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

OPERATIONS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
"""The operations whose second input are weights that are quantised, as LiteRT names them."""

MIN_VALUES = 1024
"""Tables with fewer values stay float."""


@dataclass(frozen=True)
class Layer:
    """An operation with weights."""

    name: str
    """The name of its output, by which ai-edge-quantizer selects it."""
    operation: str
    weights: str
    """The name of its weights."""
    shape: tuple[int, ...]
    """Of the weights; of a dense layer [units, inputs]."""

    @property
    def selector(self) -> str:
        """The regular expression that selects it alone."""
        return f"^{re.escape(self.name)};"  # ai-edge-quantizer ends each name with a semicolon

    @property
    def said(self) -> str:
        """The name of the layer in Keras: `dense` of weights `convnet_1/dense_1/MatMul`."""
        parts = self.weights.split(";")[0].split("/")
        return re.sub(r"_\d+$", "", parts[-2] if len(parts) > 1 else parts[0])


def layers_of(content: bytes) -> list[Layer]:
    """Return the layers of a `.tflite` file in the order in which they are computed."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    names = {getattr(schema.BuiltinOperator, name): name for name in OPERATIONS}
    found = []
    for graph in model.subgraphs:
        for operator in graph.operators:
            code = model.operatorCodes[operator.opcodeIndex]
            name = names.get(max(code.builtinCode, code.deprecatedBuiltinCode))
            if name is None:
                continue
            weights = graph.tensors[operator.inputs[1]]
            data = model.buffers[weights.buffer].data
            if weights.type == schema.TensorType.FLOAT32 and data is not None and len(data):
                output = graph.tensors[operator.outputs[0]].name.decode()
                shape = tuple(int(size) for size in weights.shape)
                found.append(Layer(output, name, weights.name.decode(), shape))
    return found


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
