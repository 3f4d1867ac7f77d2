"""The layers of a LiteRT file: its operations with weights."""

from __future__ import annotations

import re
from dataclasses import dataclass

OPERATIONS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
"""The operations whose second input are weights that are quantised, as LiteRT names them."""


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
