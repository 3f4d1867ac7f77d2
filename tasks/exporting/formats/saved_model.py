"""The float SavedModel, whose bytes are a function of weights, architecture and library versions.

Keras' exporter orders variables by memory address, numbers functions by process, stores the machine's threads and
writes every weight twice. This one saves a plain `tf.Module` with the weights in the model's order, and then makes
the graph canonical.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .format import Format

if TYPE_CHECKING:
    import keras
    from google.protobuf.message import Message

    from tasks.exporting.preprocess import Preprocess
    from tasks.models.forward import Function

SIGNATURES = ("serve", "serving_default")
OUTPUT = "logits"
RAW, PREPROCESS = "raw", "preprocess"
"""The signatures that take raw columns: to the outputs, and to the model's inputs."""

FUNCTION = re.compile(r"^(__(?:inference|forward|backward)_.*_)(\d+)$")
"""TensorFlow's names of functions: a prefix, and a number that counts up in the process."""


class SavedModel(Format):
    """A SavedModel, which uses the threads of the process."""

    kind = "saved_model"
    place = 1
    about = "TensorFlow; always, as the registry serves it"
    file = "saved_model"
    libraries = ("tensorflow",)
    packages = ("tensorflow",)
    runtimes = ("tensorflow",)

    code = """\
import numpy as np
import tensorflow as tf

model = tf.saved_model.load("$file")  # keep it: its variables live as long as it does


def predict(inputs):
    inputs = {name: tf.constant(array) for name, array in inputs.items()}
    return model.signatures["$signature"](**inputs)["$output"].numpy()

"""
    run_code = """\
def run(signature, inputs):
    results = model.signatures[signature](**{name: tf.constant(array) for name, array in inputs.items()})
    return {name: tensor.numpy() for name, tensor in results.items()}

"""

    @staticmethod
    def write(
        model: keras.Model,
        preprocess: Preprocess | None,
        parent: Path | None,
        target: Path,
        functions: Sequence[Function] = (),
    ) -> None:
        """Write `model` as a SavedModel into the folder `target`.

        Both `SIGNATURES` take the model's inputs by name ([B, *shape], any B) and return float32 `logits` [B, classes].
        Each of `functions` is a signature with the names of its inputs and outputs, over these variables and its own.
        With `preprocess`, `RAW` takes raw columns and returns the same, and `PREPROCESS` returns the model's inputs.
        """
        import tensorflow as tf

        names = [source.name for source in model.inputs]
        specs = [tf.TensorSpec(source.shape, source.dtype, name=source.name) for source in model.inputs]
        module = tf.Module()
        further = [weight for function in functions for weight in function.own]
        module.weights = [weight.value for weight in (*model.weights, *further)]

        def serve(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            by_name = inputs[0] if len(names) == 1 else dict(zip(names, inputs, strict=True))
            return {OUTPUT: model(by_name, training=False)}

        # Not called serve: TensorFlow's converter to LiteRT would then take one signature only.
        module.model = tf.function(serve, specs, autograph=False)
        signatures = dict.fromkeys(SIGNATURES, module.model.get_concrete_function())
        for function in functions:
            signatures[function.name] = _traced(function)
        if preprocess is not None:
            raw_inputs = preprocess.inputs

            def prepare(*raw: tf.Tensor) -> dict[str, tf.Tensor]:
                return preprocess({source.argument: tensor for source, tensor in zip(raw_inputs, raw, strict=True)})

            def answer(*raw: tf.Tensor) -> dict[str, tf.Tensor]:
                arrays = prepared(*raw)
                return module.model(*(arrays[name] for name in names))

            raw_specs = [preprocess.spec(source) for source in raw_inputs]
            prepared = tf.function(prepare, raw_specs, autograph=False)
            signatures[PREPROCESS] = prepared.get_concrete_function()
            signatures[RAW] = tf.function(answer, raw_specs, autograph=False).get_concrete_function()
        tf.saved_model.save(module, str(target), signatures=signatures)
        # It holds a random uuid; nothing that loads a SavedModel needs it.
        (target / "fingerprint.pb").unlink(missing_ok=True)
        graph = target / "saved_model.pb"
        graph.write_bytes(canonical(graph.read_bytes()))

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for operations, files and functions that do more than compute."""
        from tasks.exporting.checks import check_saved_model

        check_saved_model(path)

    def __init__(self, path: Path, threads: int) -> None:
        import tensorflow as tf

        self._constant = tf.constant
        # The signature does not keep the variables alive; the loaded object does.
        self._loaded = tf.saved_model.load(str(path))
        self._signature = self._loaded.signatures["serving_default"]

    @property
    def interface(self) -> dict[str, Any]:
        """The names of the signatures; shape and dtype of inputs and outputs by name."""
        sides = {"inputs": self._signature.structured_input_signature[1], "outputs": self._signature.structured_outputs}
        described = {
            side: {name: [list(spec.shape), spec.dtype.name] for name, spec in specs.items()}
            for side, specs in sides.items()
        }
        return {"signatures": sorted(self._loaded.signatures), **described}

    def __call__(self, batch: Any) -> Any:
        (output,) = self._run(self._signature, batch).values()
        return output

    def raw(self, columns: Any) -> Any:
        """Return the outputs for raw columns by name; only where there is the signature `RAW`."""
        (output,) = self._run(self._loaded.signatures[RAW], columns).values()
        return output

    def preprocess(self, columns: Any) -> Any:
        """Return the model's inputs by name of raw columns by name; only where there is the signature `RAW`."""
        return self._run(self._loaded.signatures[PREPROCESS], columns)

    def run(self, signature: str, arrays: Any) -> dict[str, Any]:
        """Return the outputs of a signature by name, for inputs by name."""
        return self._run(self._loaded.signatures[signature], arrays)

    def _run(self, signature: Any, arrays: Any) -> dict[str, Any]:
        results = signature(**{name: self._constant(array) for name, array in arrays.items()})
        return {name: tensor.numpy() for name, tensor in results.items()}


def _traced(function: Function) -> Any:
    """Return a function over the model's variables as one of TensorFlow."""
    import tensorflow as tf

    names = [source.name for source in function.inputs]
    specs = [tf.TensorSpec(source.shape, source.dtype, name=source.name) for source in function.inputs]
    call = tf.function(lambda *tensors: function.call(dict(zip(names, tensors, strict=True))), specs, autograph=False)
    return call.get_concrete_function()


def functions_in(path: Path) -> list[str]:
    """Return the names of the signatures of functions in a SavedModel that other formats have too, sorted, without
    loading it."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    from tasks.models.outputs import FURTHER

    [meta] = SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs
    known = {*SIGNATURES, RAW, PREPROCESS, FURTHER, "__saved_model_init_op"}
    return sorted(name for name in meta.signature_def if name not in known)


def canonical(serialized: bytes) -> bytes:
    """Return the same SavedModel proto without what depends on the process that wrote it.

    Functions are numbered by order of creation, the library is sorted by name, and the numeric names of captures and
    the thread and device counts of calls are removed. None of them affects loading or computation.
    """
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    proto = SavedModel.FromString(serialized)
    for meta in proto.meta_graphs:
        library = meta.graph_def.library
        names = [match for function in library.function if (match := FUNCTION.match(function.signature.name))]
        names.sort(key=lambda match: int(match[2]))
        _rename(meta, {match[0]: f"{match[1]}{rank}" for rank, match in enumerate(names)})
        functions = sorted(library.function, key=lambda function: function.signature.name)
        del library.function[:]
        library.function.extend(functions)
        nodes = [meta.graph_def.node, *(function.node_def for function in library.function)]
        for attributes in (node.attr for group in nodes for node in group):
            if "config_proto" in attributes:
                del attributes["config_proto"]
        for attributes in (argument.attr for function in library.function for argument in function.arg_attr.values()):
            if "_user_specified_name" in attributes and attributes["_user_specified_name"].s.isdigit():
                del attributes["_user_specified_name"]
    serialized = proto.SerializeToString(deterministic=True)
    return bytes(serialized)


def _rename(message: Message, names: dict[str, str]) -> None:
    """Replace strings and map keys that are function names, anywhere in the message."""
    for field, value in message.ListFields():
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            is_message = entry.fields_by_name["value"].message_type is not None
            for key in [key for key in value if key in names]:
                if is_message:
                    value[names[key]].CopyFrom(value[key])
                else:
                    value[names[key]] = value[key]
                del value[key]
            for key in value if is_message else ():
                _rename(value[key], names)
        elif entry is not None:
            for item in value if field.is_repeated else (value,):
                _rename(item, names)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [names.get(item, item) for item in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, names.get(value, value))
