"""The float SavedModel, whose bytes are a function of weights, architecture and library versions.

Stock exporters order variables by memory address, number functions by what the process did before, and note the
threads of the machine (and write every weight twice). So: a plain `tf.Module` with the weights in the model's order,
and then a canonical copy of the graph.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.exporting import OUTPUT

if TYPE_CHECKING:
    import keras
    from google.protobuf.message import Message

SIGNATURES = ("serve", "serving_default")

FUNCTION = re.compile(r"^(__(?:inference|forward|backward)_.*_)(\d+)$")
"""How TensorFlow names functions: what for, and a number that counts up through the process."""


def write(model: keras.Model, folder: Path) -> None:
    """Write `model` as a SavedModel into the empty `folder`.

    Both signatures take the model's one input under its own name ([B, *shape], B free) and give float32
    `logits` [B, classes].
    """
    import tensorflow as tf

    source = model.inputs[0]
    spec = tf.TensorSpec(source.shape, source.dtype, name=source.name)
    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]

    def serve(batch: tf.Tensor) -> dict[str, tf.Tensor]:
        return {OUTPUT: model(batch, training=False)}

    module.serve = tf.function(serve, [spec], autograph=False)
    concrete = module.serve.get_concrete_function()
    tf.saved_model.save(module, str(folder), signatures=dict.fromkeys(SIGNATURES, concrete))
    # It holds a random uuid; nothing that loads a SavedModel needs it.
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    graph = folder / "saved_model.pb"
    graph.write_bytes(canonical(graph.read_bytes()))


def canonical(serialized: bytes) -> bytes:
    """The same SavedModel proto without traces of the process that wrote it.

    Functions are numbered by the order in which they were made, the library is sorted by name, and captures' numeric
    names and the thread and device counts of calls are dropped. It loads and computes alike.
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
    """Replace strings and map keys that are function names, wherever they stand in the message."""
    for field, value in message.ListFields():
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            held = entry.fields_by_name["value"].message_type is not None
            for key in [key for key in value if key in names]:
                if held:
                    value[names[key]].CopyFrom(value[key])
                else:
                    value[names[key]] = value[key]
                del value[key]
            for key in value if held else ():
                _rename(value[key], names)
        elif entry is not None:
            for item in value if field.is_repeated else (value,):
                _rename(item, names)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            value[:] = [names.get(item, item) for item in value]
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, names.get(value, value))
