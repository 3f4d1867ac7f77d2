"""The model as an ONNX file, converted from the SavedModel; batch size and length stay free."""

from __future__ import annotations

import warnings
from itertools import count
from pathlib import Path
from typing import Any

from .format import TRUST, Format

SIGNATURE = "serving_default"

OPSET = 18
"""The version of ONNX's operators: the newest that tf2onnx 1.17 writes."""
DOMAINS = {"", "ai.onnx", "ai.onnx.ml"}
"""The domains of ONNX's own operators."""
DTYPES = {"float": "float32", "double": "float64"}
"""NumPy's names of the types that ONNX Runtime names otherwise."""


class Onnx(Format):
    """An ONNX file, run by ONNX Runtime."""

    kind = "onnx"
    file = "model.onnx"
    parent = "saved_model"
    extra = "onnx"
    libraries = ("tf2onnx", "onnx", "onnxruntime")
    packages = ("onnxruntime",)
    runtimes = ("onnxruntime",)
    shares_threads = False

    code = """\
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
model = onnxruntime.InferenceSession("$file", options, ["CPUExecutionProvider"])


def predict(inputs):
    (outputs,) = model.run(None, inputs)
    return outputs

"""

    @staticmethod
    def write(model: Any, preprocess: Any, parent: Path | None, target: Path, functions: Any = ()) -> None:
        """Convert the SavedModel folder `parent`; inputs and output keep their names, shapes and dtypes.

        Raises:
            ValueError: an operation has no counterpart in ONNX, or the file would be invalid.
        """
        import onnx
        import tf2onnx
        from keras.src.export.tf2onnx_lib import patch_tf2onnx
        from tf2onnx.tf_loader import from_saved_model

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it asks whether NumPy has a name that it will have again
            patch_tf2onnx()  # Keras' repair of tf2onnx for NumPy 2
        graph, inputs, outputs, names = from_saved_model(
            str(parent), None, None, "serve", [SIGNATURE], return_tensors_to_rename=True
        )
        proto, _ = tf2onnx.convert._convert_common(
            graph, name="model", opset=OPSET, input_names=inputs, output_names=outputs, tensors_to_rename=names
        )
        proto = canonical(proto)
        try:
            onnx.checker.check_model(proto, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise ValueError(f"{error}".strip().splitlines()[0]) from error
        target.write_bytes(proto.SerializeToString(deterministic=True))

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for weights in other files, which could be anywhere, and for operators that are not ONNX's.

        An operator of another domain is in a library that the process has loaded.
        """
        import onnx
        from google.protobuf.message import DecodeError

        from tasks.errors import Failed

        try:
            model = onnx.load(path, load_external_data=False)
        except DecodeError as error:
            raise Failed(str(path), str(error), "it is a file of ONNX", TRUST) from error
        tensors, domains = list(model.graph.initializer), {each.domain for each in model.opset_import}
        waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        while waiting:
            node = waiting.pop()
            domains.add(node.domain)
            for attribute in node.attribute:
                tensors += [attribute.t, *attribute.tensors]
                for inner in (attribute.g, *attribute.graphs):
                    waiting += inner.node
                    tensors += inner.initializer
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                where = next((each.value for each in tensor.external_data if each.key == "location"), "nowhere")
                saw = f"the weight {tensor.name} is in another file, {where}"
                raise Failed(str(path), saw, "weights are in the file itself", TRUST)
        for domain in sorted(domains - DOMAINS):
            raise Failed(str(path), f"operators of {domain}", "operators are those of ONNX", TRUST)

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])

    @property
    def interface(self) -> dict[str, Any]:
        """The only signature; shape and dtype of inputs and outputs by name."""
        sides = {"inputs": self._session.get_inputs(), "outputs": self._session.get_outputs()}
        described = {
            side: {
                value.name: [
                    [size if isinstance(size, int) else None for size in value.shape],
                    DTYPES.get(dtype := value.type.removeprefix("tensor(").removesuffix(")"), dtype),
                ]
                for value in values
            }
            for side, values in sides.items()
        }
        return {"signatures": [SIGNATURE], **described}

    def __call__(self, batch: Any) -> Any:
        (output,) = self._session.run(None, dict(batch))
        return output


def canonical(model: Any) -> Any:
    """Return the same ONNX model without what depends on the process that converted it.

    Nodes, values and weights are numbered in the order in which the outputs need them, and the shapes of values within
    the graph, which a runtime infers, are left out. None of them affects the computation.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ClearField("doc_string")
    result.ClearField("metadata_props")
    used = sorted(result.opset_import, key=lambda each: each.domain)
    del result.opset_import[:]
    result.opset_import.extend(used)
    graph = result.graph
    kept = {value.name: value.name for value in (*graph.input, *graph.output)}
    _canonicalise(graph, kept, count())
    for value in (*graph.input, *graph.output):
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            if not size.dim_value:
                size.dim_param = "batch" if axis == 0 else f"{value.name}_{axis}"
    return result


def _canonicalise(graph: Any, names: dict[str, str], numbers: Any) -> None:
    """Order and rename a graph, and those within its nodes, in place; `names` are those that are known outside."""
    makers = {output: node for node in graph.node for output in node.output if output}
    weights = {weight.name: weight for weight in graph.initializer}
    ordered, done, waiting = (
        [],
        set(),
        [(makers[each.name], False) for each in graph.output[::-1] if each.name in makers],
    )
    while waiting:  # depth first, and not by recursion: a deep model has thousands of nodes in a row
        node, finished = waiting.pop()
        if finished:
            ordered.append(node)
        elif id(node) not in done:
            done.add(id(node))
            needed = [makers[name] for name in _reads(node) if name in makers]
            waiting += [(node, True), *((each, False) for each in needed[::-1])]
    kept_weights = []
    for number, node in enumerate(ordered):
        for name in _reads(node):
            if name in weights and name not in names:
                names[name] = f"weight{next(numbers)}"
                kept_weights.append(weights[name])
        for name in node.output:
            if name and name not in names:
                names[name] = f"value{next(numbers)}"
        node.name = f"{node.op_type}{number}"
        node.ClearField("doc_string")
    nodes = []
    for node in ordered:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                own = {value.name: f"argument{next(numbers)}" for value in inner.input}
                own |= {value.name: f"result{next(numbers)}" for value in inner.output if value.name not in names}
                _canonicalise(inner, {**names, **own}, numbers)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        copied = type(node)()
        copied.CopyFrom(node)
        nodes.append(copied)
    constants = []
    for weight in kept_weights:
        copied = type(weight)()
        copied.CopyFrom(weight)
        copied.name = names[weight.name]
        copied.ClearField("doc_string")
        constants.append(copied)
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
        value.ClearField("doc_string")
    for field, values in (("node", nodes), ("initializer", constants)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    for field in ("value_info", "doc_string", "metadata_props"):
        graph.ClearField(field)


def _reads(node: Any) -> list[str]:
    """Return the names that a node reads, in order: its inputs, and what graphs within it take from outside."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            own = {value.name for value in (*inner.input, *inner.initializer)}
            own |= {name for each in inner.node for name in each.output}
            names += [name for each in inner.node for name in _reads(each) if name not in own]
            names += [value.name for value in inner.output if value.name not in own]
    return names
